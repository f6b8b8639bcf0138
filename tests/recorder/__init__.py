"""Exchanges of Apache's Java clients with Apache's servers, and the same questions to other servers: see
`python -m tests.recorder --help`."""
