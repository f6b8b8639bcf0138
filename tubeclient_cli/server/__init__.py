"""`tubeclient server`: the embedded cluster, as a process."""
