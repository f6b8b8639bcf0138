"""Partitions that are added to stores in use, while a range is read and a query's planner looks."""

from __future__ import annotations

import pytest

from tests.conformance.clients import GROUPS, ends, read
from tests.conformance.cluster import Cluster
from tests.spark_source.by_hand import Query
from tests.waiting import wait_for
from tubeclient import ClientSettings, OffsetRange, PartitionKey, RangeReader, fetch_view
from tubeclient.flows.read_range import Pack
from tubeclient.range_reader import WantedRange
from tubeclient.wire.payload import decode_payload

pytestmark = pytest.mark.apache

ROW = 28
OLD = 200
"""Messages of the first partition before there is another."""

FIRST, ADDED = (PartitionKey(1, "grown", number) for number in range(2))


def bodies_of(pack: Pack) -> list[bytes]:
    return [decode_payload(payload, flag)[0] for _, payload, flag in zip(*pack.columns, strict=True)]


def at(query: Query, partition_id: int) -> int | None:
    """Where a partition of the first broker stands in the checkpoint."""
    assert query.checkpoint is not None
    for spans, offset in query.checkpoint.get(str(FIRST.store), {}).items():
        first, _, last = spans.partition("-")
        if int(first) <= partition_id <= int(last or first):
            return int(offset)
    return None


def test_added_partition_starts_at_the_store_end(tube: Cluster, settings: ClientSettings) -> None:
    """A partition added to a store starts at the store's end, and running reads keep their ranges."""
    query = Query(tube, subscribe="grown", startingOffsets="earliest", consumerGroup="grown", retryLimit="30s")
    old = [b"old-%d" % number for number in range(OLD)]
    tube.put(FIRST, old)
    broker = fetch_view(settings, ["grown"], GROUPS).broker_of(FIRST)
    halves = [WantedRange(broker, OffsetRange(FIRST, start * ROW, (start + OLD // 2) * ROW)) for start in (0, OLD // 2)]
    with query.run() as one, RangeReader(settings, GROUPS, visit_token=tube.visit_token()) as reader:
        query.until(one, OLD)
        for _ in range(3):
            one._joined().snapshots.get(fresh=True)
        packs = (pack for _, pack in reader.read_all(halves) if pack is not None)
        got = bodies_of(next(packs))
        tube.servers.grow_topic("grown", partitions=2)
        wait_for(lambda: (query.batch(one), at(query, ADDED.partition_id) is not None)[1], "the new partition")
        assert at(query, ADDED.partition_id) == OLD * ROW
        new = [b"new-%d" % number for number in range(20)]
        for number, body in enumerate(new):
            tube.put((ADDED, FIRST)[number % 2], [body])
        for pack in packs:
            got += bodies_of(pack)
        assert got == old
        query.until(one, OLD + len(new))
    assert sorted(query.rows) == sorted([*old, *new])
    view = fetch_view(settings, ["grown"], GROUPS)
    end = ends(settings, view)[ADDED.store]
    assert end == (OLD + len(new)) * ROW
    assert [body for _, body, _ in read(tube, view, OffsetRange(ADDED, 0, end))] == new[::2]
