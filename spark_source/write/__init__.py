"""What a writing task does: rows to messages."""
