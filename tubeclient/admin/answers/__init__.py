"""The JSON of masters and brokers as values of this package: pure, and never more than a ProtocolError."""
