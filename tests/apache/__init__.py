"""Apache TubeMQ as a test fixture: its jars, its servers and its Java client, driven from Python."""
