"""A plain streaming query from a topic into a Delta table, in its own process that runs until it is ended."""

from __future__ import annotations

from pathlib import Path

from tests.spark_home import delta_confs
from tests.spark_source.other_driver import SMALL
from tubeclient_cli.common.session import make_session


def main(options: dict[str, str], folder: Path) -> None:
    """Read on from the checkpoint in `folder` into the table beside it."""
    spark = make_session("plain query", SMALL["spark.master"], {**SMALL, **delta_confs()})
    rows = spark.readStream.format("tubeclient").options(**options).load().select("value").writeStream
    query = rows.format("delta").option("checkpointLocation", str(folder / "checkpoint")).start(str(folder / "table"))
    query.awaitTermination()


if __name__ == "__main__":
    import json
    import sys

    main(json.loads(sys.argv[1]), Path(sys.argv[2]))
