"""Strategies that use only a partition's name, so that other partitions do not matter."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from hashlib import md5

from tubeclient.assignment.hints import NO_HINTS, Assignment, Hint, Hints, goes_by
from tubeclient.keys import PartitionKey
from tubeclient.wire.payload import java_string_hash

__all__ = ["consistent_hash", "hash_modulo"]


@goes_by()
def hash_modulo(keys: Sequence[PartitionKey], source_count: int, hints: Hints = NO_HINTS) -> Assignment:
    """Node = Java hash of the key's text, as an unsigned 32-bit number, % sourceCount.

    The example client of Apache TubeMQ does the same; use it for groups shared with such clients. How even it is
    depends on the names.
    """
    nodes: Assignment = [[] for _ in range(source_count)]
    # Java's hash of a + b is hash(a) * 31^len(b) + hash(b), so each part is hashed once, not per partition.
    topics: dict[tuple[int, str], int] = {}
    numbers: dict[int, tuple[int, int]] = {}
    for key in keys:
        broker_id, topic, partition_id = key
        before = topics.get((broker_id, topic))
        if before is None:
            before = topics[broker_id, topic] = java_string_hash(f"{broker_id}:{topic}:")
        number = numbers.get(partition_id)
        if number is None:
            digits = str(partition_id)
            number = numbers[partition_id] = (31 ** len(digits), java_string_hash(digits))
        nodes[(before * number[0] + number[1] & 0xFFFFFFFF) % source_count].append(key)
    return nodes


@goes_by(Hint.NODE_NAMES, Hint.VIRTUAL_NODES)
def consistent_hash(keys: Sequence[PartitionKey], source_count: int, hints: Hints = NO_HINTS) -> Assignment:
    """Assign on a ring, as RocketMQ's AllocateMessageQueueConsistentHash does with its own hash: MD5's first 32 bits.

    Each node has `hints.virtual_nodes` points on the ring, hashed from its name, "-" and 0, 1, ... A partition goes to
    the first point at or after its own hash. The hashed text of a partition is that of RocketMQ's MessageQueue with the
    broker id as the broker's name, so equal names give RocketMQ's own result.

    A new node takes partitions from the others and moves nothing else; a lost node leaves all other partitions where
    they were. For that, nodes must keep their names when node ids shift. Sizes are uneven.
    """
    at: dict[bytes, int] = {}
    for node, name in enumerate(hints.names(source_count)):
        for replica in range(hints.virtual_nodes):
            at[_place(f"{name}-{replica}")] = node  # of equal points the later one stays, as in RocketMQ
    places = sorted(at)
    owners = [at[place] for place in places]
    owners.append(owners[0])  # after the last point the ring starts again
    nodes: Assignment = [[] for _ in range(source_count)]
    for key in keys:
        broker_id, topic, partition_id = key
        text = f"MessageQueue [topic={topic}, brokerName={broker_id}, queueId={partition_id}]"
        nodes[owners[bisect_left(places, _place(text))]].append(key)
    return nodes


def _place(text: str) -> bytes:
    return md5(text.encode(), usedforsecurity=False).digest()[:4]
