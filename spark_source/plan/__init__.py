"""What a batch reads and who reads it. Pure: no I/O, no clock."""
