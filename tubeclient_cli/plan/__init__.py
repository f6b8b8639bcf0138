"""`tubeclient plan`: which node would read what."""
