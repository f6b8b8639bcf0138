"""`tubeclient bad-records`: look at the table of bad records of `tubeclient ingest`."""
