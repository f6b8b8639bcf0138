"""Batch reads on a real Spark and an embedded TubeMQ."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from tests.spark_source.feed import Feed
from tests.spark_source.queries import batch, stream
from tests.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ENTRY = 28


def test_every_row_and_column(delta_spark: SparkSession, plain_feed: Feed) -> None:
    feed = plain_feed
    feed.send(40, tags=["web"])
    rows = batch(delta_spark, feed.options(columns="*, attributes")).orderBy("value").collect()
    assert [bytes(row.value) for row in rows] == feed.sent
    assert len({(row.partitionKey, row.messageId) for row in rows}) == 40  # ids are unique within a store only
    first = rows[1].asDict()
    assert first.pop("messageId") > 0
    assert first.pop("messageTime").astimezone(UTC) == datetime(2024, 1, 2, 3, 4, tzinfo=UTC)
    assert first == {
        "topic": feed.topic,
        "partitionKey": f"1:{feed.topic}:10000",
        "brokerId": 1,
        "partition": 10000,
        "offset": 0,
        "messageType": "web",
        "value": b"message-000001",
        "attributes": {"k": "v"},
    }
    # One partition in each store: every message's offset is its place.
    assert sorted((row.partition, row.offset) for row in rows) == [
        (partition, number * ENTRY) for partition in (0, 10000) for number in range(20)
    ]


def test_lag_is_a_query(delta_spark: SparkSession, feed: Feed) -> None:
    feed.send(40)
    frame = batch(delta_spark, feed.options(read="positions"))
    frame.createOrReplaceTempView("positions")
    # The partitions of a store share its index.
    by_store = "SELECT max(lag) AS lag FROM positions GROUP BY topic, brokerId, storeId"
    assert delta_spark.sql(f"SELECT sum(lag) FROM ({by_store})").collect()[0][0] == 40
    assert frame.where("groupOffset IS NULL AND failure IS NULL").count() == len(feed.partition_ids)
    with pytest.raises(Exception, match=r"read positions belongs to batch reads; a streaming read gives messages"):
        stream(delta_spark, feed.options(read="positions")).writeStream.format("noop").start().awaitTermination(60)


def test_an_exact_range(delta_spark: SparkSession, plain_feed: Feed) -> None:
    feed = plain_feed
    feed.send(100, partitions=[0])
    name = f"1:{feed.topic}:0"
    between = feed.options(
        startingOffsets=json.dumps({name: 10 * ENTRY, "default": "earliest"}),
        endingOffsets=json.dumps({name: 35 * ENTRY, "default": "latest"}),
    )
    rows = batch(delta_spark, between).collect()
    assert sorted(bytes(row.value) for row in rows) == feed.sent[10:35]


def test_the_group_need_not_be_free(delta_spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    feed.send(30)
    query = (
        stream(delta_spark, feed.options(startingOffsets="earliest"))
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        wait_for(feed.held, "the query to hold its group")
        assert batch(delta_spark, feed.options()).count() == 30
        assert query.exception() is None
    finally:
        query.stop()


def test_messages_larger_than_a_batch(delta_spark: SparkSession, feed: Feed) -> None:
    large = [b"%d" % n * (900 * 1024) for n in range(1, 10)]
    from embedded_tubemq import NewMessage

    feed.tube.load(feed.topic, [NewMessage(0, body) for body in large])
    rows = batch(delta_spark, feed.options()).collect()
    assert sorted(bytes(row.value) for row in rows) == large
