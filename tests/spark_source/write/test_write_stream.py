"""Streaming writes on a real Spark and an embedded TubeMQ: at least once, over failures and restarts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from embedded_tubemq import EmbeddedTubeMQ
from tests.spark_source.feed import Feed
from tests.spark_source.queries import WAIT_SECONDS, batch, stream
from tubeclient.wire.methods import Method

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def run(frame: DataFrame, target: Feed, checkpoint: Path, mode: str = "append", **more: Any) -> None:
    """Write all there is to the target's topic; raises what ended the query early."""
    query = (
        frame.writeStream.format("tubeclient")
        .option("masterServers", target.tube.master_address)
        .option("topic", target.topic)
        .option("checkpointLocation", str(checkpoint))
        .options(**more)
        .outputMode(mode)
        .queryName(f"into_{target.topic}")
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(WAIT_SECONDS), "the query did not end"
    finally:
        query.stop()


def written(spark: SparkSession, target: Feed) -> Counter[bytes]:
    return Counter(bytes(row.value) for row in batch(spark, target.options()).select("value").collect())


def from_feed(spark: SparkSession, feed: Feed, **more: Any) -> DataFrame:
    options = feed.options(startingOffsets="earliest", **more)
    return stream(spark, options).selectExpr("value", "messageType AS tag", "messageTime")


@pytest.mark.merge
def test_a_topic_is_copied_over_a_restart(
    delta_spark: SparkSession, feed: Feed, plain_feed: Feed, tmp_path: Path
) -> None:
    feed.send(500, tags=["web", "app"])
    frame = from_feed(delta_spark, feed, maxOffsetsPerTrigger=200)
    run(frame, plain_feed, tmp_path)
    assert written(delta_spark, plain_feed) == Counter(feed.sent)
    feed.send(100, tags=["web", "app"])
    feed.wait_until_free()
    run(frame, plain_feed, tmp_path)
    assert written(delta_spark, plain_feed) == Counter(feed.sent)
    same = ["value", "messageType", "messageTime"]
    copies, originals = (batch(delta_spark, one.options()).select(same).orderBy("value") for one in (plain_feed, feed))
    assert copies.collect() == originals.collect()


@pytest.mark.merge
def test_failed_batch_is_sent_again(delta_spark: SparkSession, tmp_path: Path) -> None:
    """A failed batch is sent again at the next start, and no row is lost."""
    with EmbeddedTubeMQ(tmp_path / "tube") as tube:
        feed = Feed.create(tube, "original", stores=1, partitions=2)
        copy = Feed.create(tube, "copy", stores=1, partitions=2)
        feed.send(400)
        frame = from_feed(delta_spark, feed)
        tube.broker_faults().force(Method.SEND_MESSAGE, 400)
        with pytest.raises(Exception, match=r"sending to 1:copy:\d: the server answered 400 \(forced by a fault\)"):
            run(frame, copy, tmp_path / "checkpoint")
        first = written(delta_spark, copy)
        assert set(first) < set(feed.sent)
        feed.wait_until_free()
        run(frame, copy, tmp_path / "checkpoint")
        assert written(delta_spark, copy) == first + Counter(feed.sent)
