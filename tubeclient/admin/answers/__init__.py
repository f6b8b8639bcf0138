"""Parses the JSON of masters and brokers into values. Pure; the only error is ProtocolError."""
