"""`tubeclient ingest` for spark-submit.

    PYSPARK_PYTHON=/path/to/venv/bin/python spark-submit --properties-file conf/spark-defaults.conf \
        jobs/ingest_to_delta.py --settings conf/ingest.toml

Takes the arguments of `tubeclient ingest` and does the same; spark-submit sets master, packages and memory. The package
must be installed where driver and executors run.
"""

from __future__ import annotations

from tubeclient_cli.app import ingest
from tubeclient_cli.common.terminal import script_app

if __name__ == "__main__":
    script_app(ingest)()
