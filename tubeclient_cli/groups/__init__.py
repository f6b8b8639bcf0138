"""`tubeclient groups`: consumer groups at the master and the brokers."""
