"""Offsets by the times that producers wrote, on Apache's own servers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession

from tests.apache.java_client import JavaProducer
from tests.apache.server import ApacheTubeMQ
from tubeclient import (
    ClientSettings,
    OffsetLookup,
    OffsetRange,
    PartitionKey,
    Producer,
    RangeReader,
    fetch_view,
    reader_groups_of,
)

pytestmark = [pytest.mark.apache, pytest.mark.spark, pytest.mark.merge]

TOPIC = "apache_times"
GROUPS = reader_groups_of("times")
MINUTES = [f"2026112110{minute:02d}" for minute in range(30, 40)]


def ms(minute: str) -> int:
    return int(datetime.strptime(minute, "%Y%m%d%H%M").replace(tzinfo=UTC).timestamp()) * 1000


def times_in(settings: ClientSettings, pieces: list[OffsetRange]) -> dict[PartitionKey, list[str]]:
    view = fetch_view(settings, [TOPIC], GROUPS)
    with RangeReader(settings, GROUPS) as reader:
        return {
            piece.partition: [
                one.time for pack in reader.read(view.broker_of(piece.partition), piece) for one in pack.messages
            ]
            for piece in pieces
        }


def test_times_of_javas_producer_and_ours(
    apache: ApacheTubeMQ,
    settings: ClientSettings,
    delta_spark: SparkSession,
    producer: Producer,
    java_producer: Callable[..., JavaProducer],
) -> None:
    java = java_producer(TOPIC)
    producer.publish([TOPIC])
    sent: dict[bytes, str] = {}
    for minute in MINUTES:
        ours = [b"ours %d of %s" % (number, minute.encode()) for number in range(2_000)]
        javas = [b"java's %d of %s" % (number, minute.encode()) for number in range(20)]
        futures = producer.submit_many(TOPIC, ours, time=minute)
        for body in javas:
            java.send(TOPIC, body, None, "tag", minute)
        assert all(future.result(30) for future in futures)
        sent.update(dict.fromkeys(ours + javas, minute))

    view = fetch_view(settings, [TOPIC], GROUPS)
    partitions = view.partitions()
    assert len(partitions) == 6
    with closing(OffsetLookup(settings, GROUPS)) as lookup:
        bounds = lookup.bounds(view)
        for minute in (MINUTES[0], MINUTES[4], MINUTES[9]):
            found = lookup.offsets_at(view, dict.fromkeys(partitions, ms(minute) + 59_999))
            cuts = {key: at for key, at in found.items() if at is not None}
            assert list(cuts) == partitions
            older = times_in(settings, [OffsetRange(key, 0, at) for key, at in cuts.items()])
            rest = times_in(settings, [OffsetRange(key, at, bounds[key.store].max_offset) for key, at in cuts.items()])
            assert all(time < minute for times in older.values() for time in times)
            assert all(times[0] == minute and min(times) == minute for times in rest.values())
        late = lookup.offsets_at(view, dict.fromkeys(partitions, ms("202611211040")))
        assert set(late.values()) == {None}

    def read(start: str, end: str) -> list[bytes]:
        options = {
            "masterServers": apache.master_address,
            "masterWebPort": str(apache.master_web_port),
            "subscribe": TOPIC,
            "consumerGroup": "times",
            "startingTimestamp": str(ms(start)),
            "endingTimestamp": str(ms(end)),
        }
        rows = delta_spark.read.format("tubeclient").options(**options).load().select("value").collect()
        return sorted(bytes(row.value) for row in rows)

    cuts_in_time = [MINUTES[2], MINUTES[3], MINUTES[7], "202611211040"]
    for start, end in itertools.pairwise(cuts_in_time):
        assert read(start, end) == sorted(body for body, minute in sent.items() if start <= minute < end)
