"""`tubeclient plan`: which node would read which partitions."""
