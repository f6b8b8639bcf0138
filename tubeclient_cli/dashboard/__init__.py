"""`tubeclient dashboard`: one page about groups, their partitions and the brokers."""
