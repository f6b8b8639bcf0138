"""Each message once, while everything around the job is killed; see `run.py`, or `python -m tests.exactly_once`."""
