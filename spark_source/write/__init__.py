"""Writing tasks: rows to messages."""
