"""`tubeclient consume`: messages of a topic to the terminal."""
