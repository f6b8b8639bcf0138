"""commitOffsetsToBroker on a real Spark: the group goes on exactly, from Spark to any other client and back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark_source.feed import Feed
from tests.spark_source.queries import Batches, run_available, running, stream
from tests.waiting import wait_for
from tubeclient import Admin, ClientBalanceConsumer, ClientSettings, PullConsumer, UnknownGroup

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def settings_of(feed: Feed) -> ClientSettings:
    return ClientSettings((feed.tube.master_address,), master_web_port=feed.tube.master_web_port)


def rows_behind(feed: Feed) -> int | None:
    """Of the feed's own group, as TubeMQ's consoles show it; None where the brokers know no such group."""
    try:
        return Admin(settings_of(feed)).group_offsets(f"{feed.topic}_group").rows_behind
    except UnknownGroup:
        return None


def committing(feed: Feed, **more: object) -> dict[str, str]:
    given = {"startingOffsets": "group:earliest", "commitOffsetsToBroker": "true", **more}
    return feed.options("", **given)


def test_spark_and_consumers_take_turns(delta_spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    """Spark and two kinds of consumers each resume exactly where the one before ended."""
    group, settings = f"{feed.topic}_group", settings_of(feed)
    first = feed.send(100)
    sink = Batches()
    run_available(stream(delta_spark, committing(feed, maxOffsetsPerTrigger=40)), tmp_path / "one", sink)
    assert sink.all == sorted(first)
    feed.wait_until_free()
    assert rows_behind(feed) == 0

    second = feed.send(30)
    with ClientBalanceConsumer(settings, group, [feed.topic], source_count=1, node_id=0).start() as consumer:
        for key in consumer.partitions():
            consumer.connect(key)
        assert confirmed(consumer, len(second)) == sorted(second)
        assert consumer.get(timeout_ms=300) is None
    feed.wait_until_free()

    third = feed.send(50)
    sink = Batches()
    run_available(stream(delta_spark, committing(feed)), tmp_path / "two", sink)
    assert sink.all == sorted(third)
    feed.wait_until_free()

    fourth = feed.send(20)
    with PullConsumer(settings, group, [feed.topic]).start() as pulling:
        assert confirmed(pulling, len(fourth)) == sorted(fourth)
        assert pulling.get(timeout_ms=300) is None


def confirmed(consumer: ClientBalanceConsumer, count: int) -> list[bytes]:
    """Bodies of the next messages, sorted; at least `count`."""
    bodies: list[bytes] = []
    while len(bodies) < count:
        delivery = consumer.get(timeout_ms=30_000)
        assert delivery is not None, f"only {len(bodies)} messages of {count} came"
        consumer.confirm(delivery)
        bodies += delivery.bodies
    return sorted(bodies)


@pytest.mark.merge
def test_group_follows_a_running_query(delta_spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    """The group's position follows a running query and never leads it."""
    feed.send(90)
    at_batch: list[int | None] = []

    class Watching(Batches):
        def __call__(self, frame: object, batch_id: int) -> None:
            at_batch.append(rows_behind(feed))
            super().__call__(frame, batch_id)  # type: ignore[arg-type]

    sink = Watching()
    frame = stream(delta_spark, committing(feed, maxOffsetsPerTrigger=30))
    with running(frame, tmp_path / "checkpoint", sink):
        wait_for(lambda: len(sink.all) == 90, "all batches")
        wait_for(lambda: rows_behind(feed) == 0, "the end of the last batch, while the query runs")
        feed.tube.stop_broker()
        feed.tube.start_broker()
        feed.send(10)
        wait_for(lambda: len(sink.all) == 100 and rows_behind(feed) == 0, "the next batch, after a broker's restart")
    assert len(at_batch) >= 4
    # What stands when a batch is about to be written is the end of the one before it, or of an earlier one.
    for done, behind in zip((0, 30, 60), at_batch, strict=False):
        assert behind is None or behind >= 90 - done
