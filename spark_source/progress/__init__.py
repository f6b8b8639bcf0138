"""Reports how far the sink is: offsets table, brokers, listeners."""
