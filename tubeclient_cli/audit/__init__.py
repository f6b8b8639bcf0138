"""`tubeclient audit`: whether all that InLong sent is in the tables."""
