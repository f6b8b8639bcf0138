"""A round's rows into the tables of the job: each record once, and bad ones into theirs."""
