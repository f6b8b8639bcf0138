"""What a batch reads, and which node reads it. Pure: no I/O, no clock."""
