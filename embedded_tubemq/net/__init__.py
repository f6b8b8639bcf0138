"""TCP, TLS and HTTP in front of the state machines."""
