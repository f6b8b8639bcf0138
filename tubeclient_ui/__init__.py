"""`tubeclient ui`: a page that shows a cluster, its groups and its messages."""
