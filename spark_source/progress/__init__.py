"""How far the sink is, told to others: the offsets table, the brokers, listeners."""
