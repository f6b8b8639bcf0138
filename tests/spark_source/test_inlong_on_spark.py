"""InLong's packs on a real Spark and an embedded TubeMQ: a row for each record, in batch and in streaming reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from embedded_tubemq import NewMessage
from tests.spark_source.feed import Feed
from tests.spark_source.queries import batch, run_available, stream
from tubeclient.inlong import RecordGroup, encode_pack
from tubeclient.wire.payload import encode_attributes, encode_payload, java_string_hash

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def send(feed: Feed, stream_id: str, packs: int, records: int = 50) -> list[str]:
    """Load packs of one stream, as DataProxy sends them; returns their records."""
    sent = []
    messages = []
    for number in range(packs):
        bodies = [f"{stream_id}-{len(feed.sent)}-{number}-{record}".encode() for record in range(records)]
        attributes = {"groupId": "g", "streamId": stream_id, "dt": str(1_700_000_000_000 + number)}
        body = encode_pack([RecordGroup(attributes, bodies)], made_ms=5)
        messages.append(message(feed, body, stream_id, number))
        sent += [body.decode() for body in bodies]
    feed.tube.load(feed.topic, messages)
    feed.sent += [b""] * packs
    return sent


def message(feed: Feed, body: bytes, stream_id: str, number: int = 0) -> NewMessage:
    payload, flag = encode_payload(body, encode_attributes({"msgEnType": "2"}, stream_id, "202401020304"))
    return NewMessage(feed.partition_ids[number % len(feed.partition_ids)], payload, flag, java_string_hash(stream_id))


def texts(frame: DataFrame) -> list[str]:
    return sorted(row.value for row in frame.selectExpr("cast(value AS string) AS value").collect())


def test_a_batch_read_of_records(delta_spark: SparkSession, feed: Feed) -> None:
    sent = send(feed, "clicks", 20) + send(feed, "views", 20)
    frame = batch(delta_spark, feed.options(payload="inlong"))
    assert texts(frame) == sorted(sent)
    assert frame.select("partitionKey", "messageId", "recordIndex").distinct().count() == len(sent)
    times = frame.selectExpr("inlongGroupId AS g", "inlongStreamId AS s", "unix_millis(dataTime) AS t", "messageType")
    assert {tuple(row) for row in times.distinct().collect()} == {
        ("g", name, 1_700_000_000_000 + number, name) for name in ("clicks", "views") for number in range(20)
    }
    bodies = batch(delta_spark, feed.options(payload="inlong", filters="views", columns="value"))
    assert bodies.columns == ["value"]
    assert texts(bodies) == sorted(sent[1000:])


def test_a_stream_of_records_counts_messages(delta_spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    sent = send(feed, "clicks", 40, records=25)
    seen: list[str] = []
    sizes: list[int] = []

    def keep(frame: DataFrame, batch_id: int) -> None:
        found = texts(frame)
        seen.extend(found)
        sizes.append(len(found))

    options = feed.options(payload="auto", startingOffsets="earliest", maxOffsetsPerTrigger=16)
    run_available(stream(delta_spark, options), tmp_path / "checkpoint", keep)
    assert sizes == [400, 400, 200]
    assert sorted(seen) == sorted(sent)
