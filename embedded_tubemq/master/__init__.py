"""The master as a state machine, and its HTTP calls."""
