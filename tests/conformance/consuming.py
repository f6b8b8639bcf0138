"""Gets packs from our consumer; every wait has an end."""

from __future__ import annotations

import time

from tubeclient import ClientBalanceConsumer, Delivery, PartitionKey

__all__ = ["drain", "partition_of", "take"]

SECONDS = 30.0


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
