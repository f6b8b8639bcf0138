"""Apache TubeMQ itself as a test fixture: its jars, its servers and its Java client, all driven from Python."""
