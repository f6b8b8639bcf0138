"""`tubeclient produce`: lines of a file to messages of a topic."""
