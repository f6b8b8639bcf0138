"""Every option: its name, parser, default and documentation."""
