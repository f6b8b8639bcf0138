"""Coverage-guided fuzzing of all that reads foreign bytes: see `python -m tests.fuzz --help`."""
