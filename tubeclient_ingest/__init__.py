"""The ingest job: a group's topics into a Delta table, each message once. `pyspark_tubeclient.Ingest` is its face."""
