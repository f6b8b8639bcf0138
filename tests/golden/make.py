"""Writes the golden files of a version: what an ingest job leaves on disk, for later releases to go on from.

The checkpoint beside them is of a streaming query; make it by hand.

    python -m tests.golden.make tests/golden/v1

It has fifty messages in two stores, and reads them in three rounds. Make a folder for a new version of the offsets'
text, of the offsets table's rows or of the target's commits. Do not change the older ones: users have such files.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from tests.tubeclient_ingest.bench import Bench
from tubeclient_cli.common.session import make_session

__all__ = ["PARTS", "SENT"]

PARTS = ("offsets", "table")
SENT = 50


def main(folder: Path) -> None:
    """Make the golden files in `folder`, which must not have them."""
    folder.mkdir(parents=True, exist_ok=True)
    spark = make_session("golden", "local[1]", {"spark.sql.shuffle.partitions": "1", "spark.ui.enabled": "false"})
    with tempfile.TemporaryDirectory() as work, EmbeddedTubeMQ(f"{work}/tube", [TopicConfig("clicks", 2, 1)]) as tube:
        bench = Bench(tube, spark, Path(work))
        bench.send(SENT)
        bench.run(max_offsets_per_trigger=20)
        for part in PARTS:
            shutil.copytree(Path(work) / part, folder / part, ignore=shutil.ignore_patterns("*.crc"))
        for log in folder.rglob("*.json"):
            log.write_text(log.read_text().replace(work, "/lake"))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
