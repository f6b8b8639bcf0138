"""Several readers of one cluster at a time: sources of one query, streams beside batch reads, slow sinks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from embedded_tubemq import EmbeddedTubeMQ
from spark_source.session_confs import session_confs
from tests.spark_source.feed import Feed
from tests.spark_source.queries import Batches, run_available, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


LEASE_MS = 3_000


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[Feed]:
    """A topic on brokers that take partitions away soon."""
    with EmbeddedTubeMQ(tmp_path / "tube", lease_ms=LEASE_MS) as tube:
        yield Feed.create(tube, "impatient", stores=1, partitions=2)


def test_a_sink_slower_than_the_lease(delta_spark: SparkSession, impatient: Feed, tmp_path: Path) -> None:
    """The broker takes the partitions away while Spark does not ask for rows, and the reader takes them up again."""
    body = b"x" * 100_000
    from embedded_tubemq import NewMessage

    impatient.tube.load("impatient", [NewMessage(number % 2, b"%06d" % number + body) for number in range(400)])

    def slowly(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for number, frame in enumerate(batches):
            if number % 3 == 0:
                time.sleep(1.5 * LEASE_MS / 1000)
            yield pd.DataFrame({"value": [bytes(value[:6]) for value in frame["value"]]})

    with session_confs(delta_spark, {"spark.sql.execution.arrow.maxRecordsPerBatch": "20"}):
        frame = stream(delta_spark, impatient.options(startingOffsets="earliest", sourceCount=1))
        sink = Batches()
        run_available(frame.select("value").mapInPandas(slowly, "value binary"), tmp_path / "checkpoint", sink)
    assert sink.all == [b"%06d" % number for number in range(400)]
