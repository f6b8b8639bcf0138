"""RocketMQ's strategies, and that of TubeMQ's example client: by order, by a plan, by machine room, by hash."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from hashlib import md5
from itertools import pairwise

from tubeclient.assignment.hints import NO_HINTS, Assignment, Hints
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey
from tubeclient.wire.payload import java_string_hash


def modulo(keys: Sequence[PartitionKey], source_count: int, hints: Hints = NO_HINTS) -> Assignment:
    """Assign the sorted partitions one by one: partition number i goes to node i % sourceCount.

    Sizes differ by at most one.
    """
    return [list(keys[node_id::source_count]) for node_id in range(source_count)]


averagely_by_circle = modulo
"""RocketMQ's AllocateMessageQueueAveragelyByCircle does the same."""


def averagely(keys: Sequence[PartitionKey], source_count: int, hints: Hints = NO_HINTS) -> Assignment:
    """Cut the sorted partitions into one run per node, as RocketMQ's AllocateMessageQueueAveragely does.

    Sizes differ by at most one, and the longer runs come first. With fewer partitions than nodes, the first nodes have
    one each.
    """
    size, longer = divmod(len(keys), source_count)
    cuts = [node * size + min(node, longer) for node in range(source_count + 1)]
    return [list(keys[start:end]) for start, end in pairwise(cuts)]


def config(keys: Sequence[PartitionKey], source_count: int, hints: Hints = NO_HINTS) -> Assignment:
    """Assign by `hints.plan`, the node id of every partition: RocketMQ's AllocateMessageQueueByConfig, for all nodes.

    ConfigurationError if there is no plan, or if it omits a partition, or names a partition that is not configured, or
    a node that does not exist.
    """
    plan = hints.plan
    if plan is None:
        raise ConfigurationError("assignment strategy config needs the hint plan: the node id of every partition")
    nodes: Assignment = [[] for _ in range(source_count)]
    for key in keys:
        node = plan.get(key)
        if node is None:
            raise ConfigurationError(f"assignment strategy config: the plan leaves out partition {key}")
        if not 0 <= node < source_count:
            raise ConfigurationError(
                f"assignment strategy config: the plan gives partition {key} to node {node}; with sourceCount "
                f"{source_count} there are nodes 0 to {source_count - 1}"
            )
        nodes[node].append(key)
    if len(plan) > len(keys):
        unknown = min(plan.keys() - set(keys))
        raise ConfigurationError(f"assignment strategy config: the plan names the unknown partition {unknown}")
    return nodes


_Inner = Callable[[Sequence[PartitionKey], int], Assignment]


def machine_room(keys: Sequence[PartitionKey], source_count: int, hints: Hints = NO_HINTS) -> Assignment:
    """Assign as RocketMQ's AllocateMessageQueueByMachineRoom: runs of equal length; the rest, from the end of the
    sorted partitions, goes one each to the first nodes.

    With `hints.node_rooms`, each room's partitions go to the nodes of that room in this way, and those of a room
    without nodes to all nodes; without it, every node is in every room. RocketMQ leaves partitions of unnamed rooms
    unread; here, ConfigurationError names a broker or a node without a room.
    """
    if hints.node_rooms is None:
        _room_of_broker("machine_room", keys, hints)
        return _equal_runs_then_rest(keys, source_count)
    return _by_room("machine_room", keys, source_count, hints, _equal_runs_then_rest)


def machine_room_nearby(keys: Sequence[PartitionKey], source_count: int, hints: Hints = NO_HINTS) -> Assignment:
    """Assign as RocketMQ's AllocateMachineRoomNearby with its AllocateMessageQueueAveragely: each room's partitions go
    `averagely` to the nodes of that room, and those of a room without nodes `averagely` to all nodes.

    ConfigurationError names a broker or a node without a room.
    """
    return _by_room("machine_room_nearby", keys, source_count, hints, averagely)


def _by_room(strategy: str, keys: Sequence[PartitionKey], source_count: int, hints: Hints, inner: _Inner) -> Assignment:
    room_of_broker = _room_of_broker(strategy, keys, hints)
    if hints.node_rooms is None:
        raise ConfigurationError(f"assignment strategy {strategy} needs the hint node_rooms: the room of each node id")
    nodes_of_room: dict[str, list[int]] = {}
    for node in range(source_count):
        if node not in hints.node_rooms:
            raise ConfigurationError(f"assignment strategy {strategy}: node_rooms has no room for node {node}")
        nodes_of_room.setdefault(hints.node_rooms[node], []).append(node)
    keys_of_room: dict[str, list[PartitionKey]] = {}
    for key in keys:
        keys_of_room.setdefault(room_of_broker[key.broker_id], []).append(key)
    nodes: Assignment = [[] for _ in range(source_count)]
    for room, of_room in keys_of_room.items():
        members = nodes_of_room.get(room, range(source_count))
        for node, share in zip(members, inner(of_room, len(members)), strict=True):
            nodes[node] += share
    for mine in nodes:
        mine.sort()
    return nodes


def _room_of_broker(strategy: str, keys: Sequence[PartitionKey], hints: Hints) -> dict[int, str]:
    """The room of each broker with partitions."""
    if hints.rooms is None:
        raise ConfigurationError(f"assignment strategy {strategy} needs the hint rooms: the room of each broker id")
    broker_ids = {key.broker_id for key in keys}
    missing = sorted(broker_ids - hints.rooms.keys())
    if missing:
        raise ConfigurationError(
            f"assignment strategy {strategy}: rooms has no room for broker {missing[0]}, "
            "so nobody would read its partitions"
        )
    return {broker_id: hints.rooms[broker_id] for broker_id in broker_ids}


def _equal_runs_then_rest(keys: Sequence[PartitionKey], source_count: int) -> Assignment:
    size = len(keys) // source_count
    nodes = [list(keys[node * size : (node + 1) * size]) for node in range(source_count)]
    for node, key in enumerate(keys[size * source_count :]):
        nodes[node].append(key)
    return nodes


def hash_modulo(keys: Sequence[PartitionKey], source_count: int, hints: Hints = NO_HINTS) -> Assignment:
    """Node = Java hash of the key's text, as an unsigned 32-bit number, % sourceCount.

    The example client of Apache TubeMQ does the same; use it for groups shared with such clients. How even it is
    depends on the names.
    """
    nodes: Assignment = [[] for _ in range(source_count)]
    for key in keys:
        nodes[(java_string_hash(str(key)) & 0xFFFFFFFF) % source_count].append(key)
    return nodes


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
