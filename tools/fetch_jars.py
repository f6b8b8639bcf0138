"""Downloads Delta Lake's jars, so that later sessions find them in Ivy's cache and start quickly.

It starts a small SparkSession as `tubeclient ingest` does, so that Spark resolves the jars. A small table checks that
they are complete. `--into FOLDER` also copies them there: beside Spark's own they are found without a cache.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_TIMEOUT_S = 600.0
_CHILD = "--in-this-process"
_DELTA_JARS = ("io.delta_", "io.unitycatalog_")
"""How the names of the jars begin that Delta needs and Spark lacks."""


def resolve(into: Path | None = None) -> str:
    """Start a session with Delta, write and read one small table, copy Delta's jars to the folder `into` (None: do
    not), and return Delta's version."""
    from tubeclient_cli.common.session import make_session

    with tempfile.TemporaryDirectory(prefix="fetch-jars-") as folder:
        confs = {"spark.sql.shuffle.partitions": "1", "spark.sql.warehouse.dir": folder}
        spark = make_session("fetch_jars", "local[1]", confs)
        jars = [
            Path(jar.removeprefix("file://")) for jar in spark.sparkContext.getConf().get("spark.jars", "").split(",")
        ]
        try:
            spark.range(3).write.format("delta").save(f"{folder}/table")
            count = spark.read.format("delta").load(f"{folder}/table").count()
        finally:
            spark.stop()
    if count != 3:
        raise SystemExit(f"Delta wrote 3 rows and read {count}")
    if into is not None:
        found = [jar for jar in jars if jar.name.startswith(_DELTA_JARS)]
        if not found:
            raise SystemExit("this Spark has Delta's jars already; none were fetched, so there is nothing to copy")
        for jar in found:
            shutil.copyfile(jar, into / jar.name)
    return importlib.metadata.version("delta-spark")


def main() -> int:
    words = [word for word in sys.argv[1:] if word != _CHILD]
    into = Path(words[1]) if words[:1] == ["--into"] and len(words) == 2 else None
    if words and (into is None or not into.is_dir()):
        print("fetch_jars: --into needs a folder that is there", file=sys.stderr)
        return 2
    if len(words) < len(sys.argv) - 1:
        print(f"Delta {resolve(into)} works")
        return 0
    started = time.monotonic()
    print("Delta's jars, and a small table with them", flush=True)
    with tempfile.TemporaryFile() as output:
        # In its own process, because a resolver that hangs can only be ended from outside.
        child = subprocess.Popen(
            [sys.executable, __file__, _CHILD, *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable},
            start_new_session=True,
        )
        try:
            status = child.wait(timeout=_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 9)
            status = child.wait(timeout=10)
            print(f"fetch_jars: Delta's jars did not come within {_TIMEOUT_S:.0f} s", file=sys.stderr)
        output.seek(0)
        if status != 0:
            print(output.read().decode(errors="replace"), file=sys.stderr)
    print(f"fetch_jars: {time.monotonic() - started:.1f} s")
    return 0 if status == 0 else 1


if __name__ == "__main__":
    raise SystemExit(main())
