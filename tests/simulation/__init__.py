"""The whole in virtual time: the source, the offsets table and `ingest` on state machines of `embedded_tubemq`, with a
small fake Spark. A run depends on its seed alone. `python -m tests.simulation --help` says how to run many.
"""
