"""A query from a topic to Spark's console, with asynchronous progress tracking; in its own process, which is ended."""

from __future__ import annotations

from pathlib import Path

from tests.spark_home import delta_confs
from tests.spark_source.other_driver import SMALL
from tubeclient_cli.common.session import make_session

MANY = 1_000_000


def main(options: dict[str, str], checkpoint: Path) -> None:
    """Read on from the checkpoint. Spark writes a batch to its logs there an hour after the one before."""
    spark = make_session("console query", SMALL["spark.master"], {**SMALL, **delta_confs()})
    rows = spark.readStream.format("tubeclient").options(**options).load().selectExpr("cast(value AS string)")
    writer = rows.writeStream.format("console").options(numRows=MANY, truncate=False)
    writer = writer.options(asyncProgressTrackingEnabled=True, asyncProgressTrackingCheckpointIntervalMs=3_600_000)
    writer.option("checkpointLocation", str(checkpoint)).start().awaitTermination()


if __name__ == "__main__":
    import json
    import sys

    main(json.loads(sys.argv[1]), Path(sys.argv[2]))
