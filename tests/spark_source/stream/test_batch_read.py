"""Batch reads on a real Spark and an embedded TubeMQ."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from tests.spark_source.feed import Feed
from tests.spark_source.queries import batch

if TYPE_CHECKING:
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
