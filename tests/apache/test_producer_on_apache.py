"""Our producer on Apache's own servers, while they come and go and while the process forks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.apache.server import ApacheTubeMQ
from tests.forking import MULTI_THREADED
from tubeclient import (
    ClientSettings,
    OffsetLookup,
    OffsetRange,
    Producer,
    RangeReader,
    StoreKey,
    fetch_view,
    reader_groups_of,
)

pytestmark = [pytest.mark.apache, pytest.mark.filterwarnings(MULTI_THREADED)]

TOPIC = "py_to_java"
GROUPS = reader_groups_of("producer_tests")


def ends(settings: ClientSettings) -> dict[StoreKey, int]:
    lookup = OffsetLookup(settings, GROUPS)
    try:
        return {
            store: bounds.max_offset for store, bounds in lookup.bounds(fetch_view(settings, [TOPIC], GROUPS)).items()
        }
    finally:
        lookup.close()


def bodies_since(settings: ClientSettings, before: dict[StoreKey, int]) -> list[bytes]:
    view = fetch_view(settings, [TOPIC], GROUPS)
    after = ends(settings)
    with RangeReader(settings, GROUPS) as reader:
        return sorted(
            body
            for key in view.partitions()
            for pack in reader.read(view.broker_of(key), OffsetRange(key, before[key.store], after[key.store]))
            for body in pack.bodies
        )


@pytest.mark.merge
def test_restarts_of_broker_and_master_lose_no_message(apache: ApacheTubeMQ, settings: ClientSettings) -> None:
    patient = replace(settings, retry_limit_ms=150_000)
    with Producer(patient) as producer:
        producer.publish([TOPIC])
        before = ends(settings)
        futures = producer.submit_many(TOPIC, [b"a%d" % n for n in range(50)])
        apache.stop_broker(1)
        futures += producer.submit_many(TOPIC, [b"b%d" % n for n in range(50)])
        apache.start_broker(1)
        assert all(future.result(160) for future in futures)
        apache.restart_master()
        futures += producer.submit_many(TOPIC, [b"c%d" % n for n in range(50)])
        producer.publish([TOPIC], timeout_ms=100_000)  # the new master lists nothing until the brokers have come back
        assert producer.send(TOPIC, b"d")
        assert all(future.result(160) for future in futures)
    expected = {b"%c%d" % (letter, n) for letter in b"abc" for n in range(50)} | {b"d"}
    assert set(bodies_since(settings, before)) == expected
