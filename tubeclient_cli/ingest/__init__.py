"""`tubeclient ingest`: topics into a Delta table, each message once."""
