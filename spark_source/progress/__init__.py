"""Reports how far the sink is: the offsets table, and the listener for lags."""
