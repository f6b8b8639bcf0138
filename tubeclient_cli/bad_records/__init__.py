"""`tubeclient bad-records`: look at the dead-letter table of `tubeclient ingest`."""
