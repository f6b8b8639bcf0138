"""What tasks do of a round: they read its ranges, make rows, and write files."""
