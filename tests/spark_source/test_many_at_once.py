"""Several readers of one cluster at a time: sources of one query, streams beside batch reads, slow sinks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest
from pyspark.sql import functions as F

from embedded_tubemq import EmbeddedTubeMQ
from spark_source.session_confs import session_confs
from tests.spark_source.feed import Feed
from tests.spark_source.queries import Batches, run_available, stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def numbers(frame: DataFrame, name: str) -> DataFrame:
    """The numbers of the feed's messages, as column `name`, with a time to join by."""
    number = F.regexp_extract(F.col("value").cast("string"), r"message-(\d+)", 1).cast("int")
    return frame.select(number.alias(name), F.timestamp_seconds(number + 1_000_000).alias(f"{name}_time"))


def test_two_sources_of_one_query(delta_spark: SparkSession, feed: Feed, plain_feed: Feed, tmp_path: Path) -> None:
    feed.send(100)
    plain_feed.send(60)
    one, other = (stream(delta_spark, each.options(startingOffsets="earliest")) for each in (feed, plain_feed))
    sink = Batches()
    run_available(one.unionByName(other), tmp_path / "checkpoint", sink)
    assert sink.all == sorted(feed.sent + plain_feed.sent)


def test_two_sources_of_one_group_are_refused_with_advice(
    delta_spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    feed.send(10)
    frame = stream(delta_spark, feed.options(startingOffsets="earliest"))
    with pytest.raises(Exception, match=r"or another source of this query.*use another consumerGroup"):
        run_available(frame.unionByName(stream(delta_spark, feed.options())), tmp_path / "checkpoint", Batches())
    feed.wait_until_free()


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
