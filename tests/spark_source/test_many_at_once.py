"""Several readers of one cluster at a time: sources of one query, streams beside batch reads, slow sinks."""

from __future__ import annotations

import shutil
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
from tests.spark_source.queries import Batches, batch, run_available, running, stream, wait_for_rows
from tests.waiting import wait_for

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


def test_a_source_used_twice_in_a_query_is_read_once(delta_spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    """A union with itself and a self-join: Spark gives both uses the same batch."""
    feed.send(60)
    frame = stream(delta_spark, feed.options(startingOffsets="earliest", maxOffsetsPerTrigger=20))
    united = Batches()
    run_available(frame.unionByName(frame), tmp_path / "union", united)
    assert united.sizes == [40, 40, 40]
    assert united.all == sorted(feed.sent * 2)
    feed.wait_until_free()
    met: dict[int, list[int]] = {}

    def keep(batch: DataFrame, batch_id: int) -> None:
        met[batch_id] = [row.left for row in batch.collect()]

    left, right = numbers(frame, "left"), numbers(frame, "right")
    joined = left.withWatermark("left_time", "1 hour").join(
        right.withWatermark("right_time", "1 hour"), F.col("left") + 1 == F.col("right")
    )
    run_available(joined, tmp_path / "join", keep)
    assert sorted(number for found in met.values() for number in found) == list(range(59))


def test_a_frame_that_is_started_twice(delta_spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    """One query after the other; the second of two at once is refused, and the first goes on."""
    feed.send(30)
    frame = stream(delta_spark, feed.options(startingOffsets="earliest"))
    first, second = Batches(), Batches()
    run_available(frame, tmp_path / "1", first)
    feed.wait_until_free()
    with running(frame, tmp_path / "2", second) as query:
        wait_for_rows(query, second, 30, "the first messages")
        with pytest.raises(Exception, match=r"a second query on the same group"):
            run_available(frame, tmp_path / "3", Batches())
        feed.send(10)
        wait_for_rows(query, second, 40, "the query that was there first")
    assert first.all == feed.sent[:30]
    assert second.all == feed.sent


def test_a_stream_joined_with_another(delta_spark: SparkSession, feed: Feed, plain_feed: Feed, tmp_path: Path) -> None:
    feed.send(90)
    plain_feed.send(60)
    left, right = (
        numbers(stream(delta_spark, each.options(startingOffsets="earliest", maxOffsetsPerTrigger=40)), name)
        for each, name in ((feed, "left"), (plain_feed, "right"))
    )
    joined = left.withWatermark("left_time", "1 hour").join(
        right.withWatermark("right_time", "1 hour"), (F.col("left") == F.col("right"))
    )
    met: dict[int, list[int]] = {}

    def keep(frame: DataFrame, batch_id: int) -> None:
        met[batch_id] = [row.left for row in frame.collect()]

    run_available(joined, tmp_path / "checkpoint", keep)
    assert sorted(number for found in met.values() for number in found) == list(range(60))


def test_showing_the_topic_beside_the_groups_own_stream(
    delta_spark: SparkSession, feed: Feed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    feed.send(50)
    sink = Batches()
    with running(stream(delta_spark, feed.options(startingOffsets="earliest")), tmp_path / "checkpoint", sink) as query:
        wait_for_rows(query, sink, 50, "the first messages")
        for _ in range(3):
            batch(delta_spark, feed.options()).select(F.col("value").cast("string")).show(5, truncate=False)
            feed.send(20)
        wait_for_rows(query, sink, 110, "the stream to go on")
    assert capsys.readouterr().out.count("|message-") == 15
    assert sink.all == feed.sent


def test_a_batch_with_two_actions_beside_another_stream(delta_spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    feed.send(120)
    counts: list[tuple[int, int]] = []
    beside = Batches()

    def twice(frame: DataFrame, _: int) -> None:
        counts.append((frame.count(), frame.count()))

    ours, other = (
        stream(delta_spark, feed.options(group, startingOffsets="earliest", maxOffsetsPerTrigger=30))
        for group in ("", f"{feed.topic}_beside")
    )
    with running(other, tmp_path / "1", beside):
        run_available(ours, tmp_path / "2", twice)
        wait_for(lambda: len(beside.all) == 120, "the other stream")
    assert counts == [(30, 30)] * 4
    assert beside.all == feed.sent


def test_a_checkpoint_is_taken_up_elsewhere(delta_spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    """On another machine, whose folders have other names."""
    feed.send(70)
    first, second = Batches(), Batches()
    frame = stream(delta_spark, feed.options(startingOffsets="earliest", maxOffsetsPerTrigger=30))
    run_available(frame, tmp_path / "here", first)
    shutil.move(tmp_path / "here", tmp_path / "there")
    later = feed.send(40)
    feed.wait_until_free()
    run_available(stream(delta_spark, feed.options()), tmp_path / "there", second)
    assert second.all == later


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
