"""A broker as a state machine, and its HTTP calls."""
