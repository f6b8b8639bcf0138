"""Batch writes on a real Spark and an embedded TubeMQ."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from embedded_tubemq import EmbeddedTubeMQ
from embedded_tubemq.common.refusal import ConnectionFault
from tests.spark_source.feed import Feed
from tests.spark_source.queries import batch
from tubeclient.wire.methods import Method

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.merge]


def sink(feed: Feed, **more: object) -> dict[str, str]:
    """Options to write to the feed's topic."""
    return {
        "masterServers": feed.tube.master_address,
        "topic": feed.topic,
        **{name: str(value) for name, value in more.items()},
    }


def write(frame: DataFrame, options: dict[str, str], mode: str = "append") -> None:
    frame.write.format("tubeclient").options(**options).mode(mode).save()


def rows_of(spark: SparkSession, feed: Feed) -> list[Any]:
    return batch(spark, feed.options(columns="*, attributes")).orderBy("value").collect()


def numbered(spark: SparkSession, count: int, partitions: int = 2) -> DataFrame:
    return spark.range(0, count, 1, partitions).selectExpr("format_string('%06d', id) AS value")


def bodies(count: int) -> list[bytes]:
    return [b"%06d" % number for number in range(count)]


@pytest.fixture
def own_feed(tmp_path: Path) -> Iterator[Feed]:
    """A topic on a cluster of this test alone, whose faults are nobody else's."""
    with EmbeddedTubeMQ(tmp_path / "tube") as tube:
        yield Feed.create(tube, "own", stores=1, partitions=2)


def test_what_is_read_can_be_written_and_read_again(delta_spark: SparkSession, feed: Feed, plain_feed: Feed) -> None:
    feed.send(60, tags=["web", "app", ""])
    read = batch(delta_spark, feed.options(columns="*, attributes", messageTimeZone="Asia/Shanghai"))
    write(
        read.selectExpr("attributes", "messageType AS tag", "value", "messageTime"),
        sink(plain_feed, messageTimeZone="Asia/Tokyo"),
    )
    written = batch(delta_spark, plain_feed.options(columns="*, attributes", messageTimeZone="Asia/Tokyo"))
    same = ["value", "messageType", "messageTime", "attributes"]
    assert written.select(same).orderBy("value").collect() == read.select(same).orderBy("value").collect()
    tagged = written.filter("messageType = 'web'").count()
    assert tagged == 20
    filters = f'{{"{plain_feed.topic}": ["web"]}}'
    assert batch(delta_spark, plain_feed.options(filters=filters)).count() == 20  # the brokers know the tags


def test_broker_that_refuses(delta_spark: SparkSession, own_feed: Feed) -> None:
    """A write fails and names the broker if the broker refuses messages."""
    own_feed.tube.broker_faults().stop_writing = True
    message = r"gave up sending to topic own after \d+ attempts: sending to 1:own:\d: the server answered 503"
    with pytest.raises(Exception, match=message):
        write(numbered(delta_spark, 500), sink(own_feed, retryLimit="1s"))
    assert rows_of(delta_spark, own_feed) == []


def test_passing_faults_lose_nothing(delta_spark: SparkSession, own_feed: Feed) -> None:
    faults = own_feed.tube.broker_faults()
    faults.force(Method.SEND_MESSAGE, 500, times=20)
    faults.break_connection(Method.SEND_MESSAGE, ConnectionFault.DROP_AFTER, nth=100)
    write(numbered(delta_spark, 3_000), sink(own_feed))
    assert sorted({bytes(row.value) for row in rows_of(delta_spark, own_feed)}) == bodies(3_000)
