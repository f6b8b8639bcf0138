"""Strategies that keep reading within a machine room: nodes read brokers of their own room."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tubeclient.assignment.by_index import averagely
from tubeclient.assignment.hints import NO_HINTS, Assignment, Hint, Hints, goes_by
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey

__all__ = ["machine_room", "machine_room_nearby"]

_Inner = Callable[[Sequence[PartitionKey], int], Assignment]


@goes_by(Hint.ROOMS, Hint.NODE_ROOMS)
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


@goes_by(Hint.ROOMS, Hint.NODE_ROOMS)
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
