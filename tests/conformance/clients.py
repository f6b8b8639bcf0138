"""Gets packs from our consumer, and ranges from our range reader; every wait has an end."""

from __future__ import annotations

import time
from contextlib import closing

from tests.conformance.cluster import Cluster
from tubeclient import (
    ClientBalanceConsumer,
    ClientSettings,
    ClusterView,
    Delivery,
    OffsetLookup,
    OffsetRange,
    PartitionKey,
    RangeReader,
    StoreKey,
    reader_groups_of,
)
from tubeclient.wire.payload import decode_payload

__all__ = ["GROUPS", "drain", "ends", "partition_of", "read", "take"]

SECONDS = 30.0
GROUPS = reader_groups_of("tubeclient_tests")


def take(consumer: ClientBalanceConsumer) -> Delivery:
    """The next pack, unconfirmed."""
    delivery = consumer.get(timeout_ms=SECONDS * 1000)
    assert delivery is not None, f"{consumer!r} had nothing for {SECONDS:g} s"
    return delivery


def drain(consumer: ClientBalanceConsumer, count: int) -> list[tuple[PartitionKey, bytes]]:
    """Take and confirm packs until `count` messages came: partition and body of each, in the order they came."""
    got: list[tuple[PartitionKey, bytes]] = []
    deadline = time.monotonic() + SECONDS
    while len(got) < count:
        assert time.monotonic() < deadline, f"{len(got)} of {count} messages after {SECONDS:g} s"
        delivery = consumer.get()
        if delivery is not None:
            got += [(delivery.partition, body) for body in delivery.bodies]
            consumer.confirm(delivery)
    return got


def partition_of(topic: str, broker_id: int = 1) -> PartitionKey:
    """The first partition of a topic on a broker."""
    return PartitionKey(broker_id, topic, 0)


def ends(settings: ClientSettings, view: ClusterView) -> dict[StoreKey, int]:
    with closing(OffsetLookup(settings, GROUPS)) as lookup:
        return {store: bounds.max_offset for store, bounds in lookup.bounds(view).items()}


def read(tube: Cluster, view: ClusterView, piece: OffsetRange) -> list[tuple[int, bytes, str]]:
    """(message id, body, attribute text) of a range."""
    sizes = {(one.broker_id, one.topic): one.partitions_per_store for one in view.layouts}
    with RangeReader(tube.settings, GROUPS, visit_token=tube.visit_token(), store_sizes=sizes) as reader:
        return [
            (number, *decode_payload(payload, flag))
            for pack in reader.read(view.broker_of(piece.partition), piece)
            for number, payload, flag in zip(*pack.columns, strict=True)
        ]
