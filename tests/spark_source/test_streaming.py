"""Streaming queries on a real Spark and an embedded TubeMQ: everything once, in the batches that were asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from embedded_tubemq import EmbeddedTubeMQ
from offsets_store import GroupKey, OffsetsTable
from tests.spark_source.feed import Feed
from tests.spark_source.queries import Batches, run_available, running, stream, wait_for_rows
from tests.waiting import wait_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = pytest.mark.spark

ENTRY = 28


@pytest.mark.merge
def test_available_now_in_exact_batches(delta_spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    """AvailableNow reads everything once in batches of exactly maxOffsetsPerTrigger."""
    feed.send(1000)
    sink = Batches()
    frame = stream(delta_spark, feed.options(startingOffsets="earliest", maxOffsetsPerTrigger=300))
    progress = run_available(frame, tmp_path / "checkpoint", sink)
    assert sink.all == feed.sent
    assert sink.sizes == [300, 300, 300, 100]
    assert [one.numInputRows for one in progress] == [300, 300, 300, 100]
    ends = {f"1:{feed.topic}:0": {"0-1": 500 * ENTRY}, f"1:{feed.topic}:1": {"10000-10001": 500 * ENTRY}, "version": 1}
    assert json.loads(progress[-1].sources[0].endOffset) == ends
    assert json.loads(progress[0].sources[0].latestOffset) == ends


@pytest.mark.merge
def test_stop_frees_the_group(delta_spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    """groupJoinTimeout is 0 here: the second start succeeds only because the first gave its nodes back."""
    feed.send(120)
    sink = Batches()
    frame = stream(delta_spark, feed.options(startingOffsets="earliest"))
    with running(frame, tmp_path / "checkpoint", sink):
        wait_for(lambda: len(sink.all) == 120, "the first messages")
        assert feed.held() == {
            0: [f"1:{feed.topic}:0", f"1:{feed.topic}:10000"],
            1: [f"1:{feed.topic}:1", f"1:{feed.topic}:10001"],
        }
    feed.send(80)
    feed.wait_until_free()
    run_available(frame, tmp_path / "checkpoint", sink)
    assert sink.all == feed.sent
    assert sum(sink.sizes) == 200


@pytest.mark.merge
def test_a_replayed_batch_has_the_same_rows(delta_spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    feed.send(400)
    seen: list[list[bytes]] = []

    def fail_after_reading(frame: DataFrame, batch_id: int) -> None:
        seen.append(sorted(bytes(row.value) for row in frame.collect()))
        raise RuntimeError("the sink is down")

    frame = stream(delta_spark, feed.options(startingOffsets="earliest", maxOffsetsPerTrigger=150))
    with pytest.raises(Exception, match="the sink is down"):
        run_available(frame, tmp_path / "checkpoint", fail_after_reading)
    feed.send(400)
    feed.wait_until_free()
    sink = Batches()
    run_available(frame, tmp_path / "checkpoint", sink)
    assert sink.bodies[0] == seen[0]
    assert len(seen[0]) == 150
    assert sink.all == feed.sent


@pytest.mark.merge
def test_batch_read_twice(delta_spark: SparkSession, plain_feed: Feed, tmp_path: Path) -> None:
    """A batch that is read twice has the same rows, and the group's position does not move."""
    feed = plain_feed
    feed.send(300)
    reads: list[list[Row]] = []

    def read_twice(frame: DataFrame, batch_id: int) -> None:
        reads.extend([frame.orderBy("offset", "partition").collect() for _ in range(2)])

    run_available(stream(delta_spark, feed.options(startingOffsets="earliest")), tmp_path / "checkpoint", read_twice)
    assert len(reads[0]) == 300
    assert reads[0] == reads[1]
    group = f"{feed.topic}_group"
    groups = feed.tube.inspect(lambda broker: {cursor.group for cursor in broker.offsets.cursors()})
    assert group not in groups
    assert f"{group}-r0" in groups


@pytest.mark.merge
@pytest.mark.parametrize("with_table", [True, False])
def test_a_first_batch_that_crashed_loses_nothing(
    delta_spark: SparkSession, feed: Feed, tmp_path: Path, with_table: bool
) -> None:
    """Spark asks anew where the query starts, and "latest" has moved past messages that came since the first start."""
    feed.send(50)
    options = feed.options(startingOffsets="latest")
    if with_table:
        options["offsetsTable"] = str(tmp_path / "offsets")
    frame = stream(delta_spark, options)

    def fail(_frame: DataFrame, batch_id: int) -> None:
        raise RuntimeError("the sink is down")

    with pytest.raises(Exception, match="the sink is down"):
        run_available(frame, tmp_path / "checkpoint", fail)
    unread = feed.send(30)
    feed.wait_until_free()
    sink = Batches()
    run_available(frame, tmp_path / "checkpoint", sink)
    assert sink.all == unread


@pytest.mark.merge
def test_offsets_table_follows_the_query(delta_spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    """The offsets table never leads the query and ends where the query ended."""
    feed.send(200)
    table = OffsetsTable(str(tmp_path / "offsets"))
    group = f"{feed.topic}_group"
    led: list[int] = []

    def look(frame: DataFrame, batch_id: int) -> None:
        kept = table.positions(group, [feed.topic])
        led.append(max(kept.values(), default=0) // ENTRY)
        frame.count()

    options = feed.options(startingOffsets="earliest", maxOffsetsPerTrigger=100, offsetsTable=tmp_path / "offsets")
    run_available(stream(delta_spark, options), tmp_path / "checkpoint", look)
    # Rows of each store, before each batch of 50 + 50; the commit may come a little later.
    assert led in ([0, 50], [0, 0])
    kept = table.latest(GroupKey(group, [feed.topic]))
    assert kept is not None
    assert {row.next_offset for row in kept.partitions} == {100 * ENTRY}
    assert kept.rows_behind == 0
    # A new checkpoint goes on from the table.
    more = feed.send(40)
    feed.wait_until_free()
    sink = Batches()
    run_available(stream(delta_spark, {**options, "startingOffsets": "group"}), tmp_path / "other", sink)
    assert sink.all == more


@pytest.mark.merge
def test_restarts_of_master_and_broker_are_survived(delta_spark: SparkSession, tmp_path: Path) -> None:
    with EmbeddedTubeMQ(tmp_path / "tube") as own:
        feed = Feed.create(own, "survivor", stores=2, partitions=2)
        feed.send(100)
        sink = Batches()
        frame = stream(delta_spark, feed.options(startingOffsets="earliest", rpcTimeout="2s"))
        with running(frame, tmp_path / "checkpoint", sink) as query:
            wait_for_rows(query, sink, 100, "the first messages")
            own.restart_master()
            feed.send(100)
            wait_for_rows(query, sink, 200, "messages after the master's restart")
            own.stop_broker()
            own.start_broker()
            feed.send(100)
            wait_for_rows(query, sink, 300, "messages after the broker's restart")
    assert sink.all == feed.sent


@pytest.mark.merge
def test_filters_read_their_tags_only(delta_spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    # "Aa" and "BB" have one hash in Java: the broker lets both through.
    sent = feed.send(90, tags=["Aa", "BB", "other"])
    sink = Batches()
    options = feed.options(startingOffsets="earliest", filters=json.dumps({feed.topic: ["Aa"]}))
    run_available(stream(delta_spark, options), tmp_path / "checkpoint", sink)
    assert sink.all == sent[0::3]


@pytest.mark.merge
def test_loss_ends_the_query_or_is_counted(delta_spark: SparkSession, plain_feed: Feed, tmp_path: Path) -> None:
    feed = plain_feed
    feed.send(100, partitions=[0])
    begin = json.dumps({f"1:{feed.topic}:0": 0, "default": "earliest"})
    feed.tube.expire(feed.topic, 40 * ENTRY)
    low = feed.tube.bounds(feed.topic).min_offset // ENTRY
    assert 0 < low <= 40
    sink = Batches()
    frame = stream(delta_spark, feed.options(startingOffsets=begin))
    with pytest.raises(Exception, match=rf"\[DATA_LOSS\] partition 1:{feed.topic}:0 should be read from 0, but the"):
        run_available(frame, tmp_path / "checkpoint", sink)
    assert sink.runs == 0
    feed.wait_until_free()
    frame = stream(delta_spark, feed.options(startingOffsets=begin, failOnDataLoss="false"))
    run_available(frame, tmp_path / "other", sink)
    assert sink.all == feed.sent[low:]
