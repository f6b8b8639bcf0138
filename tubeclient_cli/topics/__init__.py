"""`tubeclient topics`: the topics of a cluster."""
