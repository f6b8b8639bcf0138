"""`tubeclient doctor`."""
