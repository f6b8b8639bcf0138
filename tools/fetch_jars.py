"""Downloads Delta Lake's jars, so that later sessions find them in Ivy's cache and start quickly.

It starts a small SparkSession as `tubeclient ingest` does, so that Spark resolves the jars. A small table checks that
they are complete.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

_TIMEOUT_S = 600.0
_CHILD = "--in-this-process"


def resolve() -> str:
    """Start a session with Delta, write and read one small table, and return Delta's version."""
    import importlib.metadata

    from tubeclient_cli.common.session import make_session

    with tempfile.TemporaryDirectory(prefix="fetch-jars-") as folder:
        confs = {"spark.sql.shuffle.partitions": "1", "spark.sql.warehouse.dir": folder}
        spark = make_session("fetch_jars", "local[1]", confs)
        try:
            spark.range(3).write.format("delta").save(f"{folder}/table")
            count = spark.read.format("delta").load(f"{folder}/table").count()
        finally:
            spark.stop()
    if count != 3:
        raise SystemExit(f"Delta wrote 3 rows and read {count}")
    return importlib.metadata.version("delta-spark")


def main() -> int:
    if sys.argv[1:] == [_CHILD]:
        print(f"Delta {resolve()} works")
        return 0
    started = time.monotonic()
    # In its own process, because a resolver that hangs can only be ended from outside.
    child = subprocess.Popen(
        [sys.executable, __file__, _CHILD],
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable},
        start_new_session=True,
    )
    try:
        status = child.wait(timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, 9)
        child.wait(timeout=10)
        print(f"fetch_jars: Delta's jars did not come within {_TIMEOUT_S:.0f} s", file=sys.stderr)
        return 1
    print(f"fetch_jars: {time.monotonic() - started:.1f} s")
    return status


if __name__ == "__main__":
    raise SystemExit(main())
