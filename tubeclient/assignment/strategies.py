"""The strategies, and the hints that some of them need.

RocketMQ's, that of TubeMQ's example client, and two that begin with the present assignment: `sticky` balances
partitions, `backlog` unread rows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import md5
from itertools import pairwise
from operator import itemgetter

from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey
from tubeclient.wire.payload import java_string_hash

Assignment = list[list[PartitionKey]]
"""One sorted list of partitions per node, by node id."""


@dataclass(frozen=True, kw_only=True)
class Hints:
    """Data that some strategies use, the same on every node of the group. Other strategies ignore it.

    Raises:
        ConfigurationError: `virtual_nodes` is below 1.
    """

    previous: Mapping[PartitionKey, int] | None = None
    """The former node id of each partition. Empty at a group's first start."""
    lag: Mapping[PartitionKey, int] | None = None
    """Unread rows, 0 or more, 0 for partitions not named."""
    rooms: Mapping[int, str] | None = None
    """The machine room of each broker id: for `machine_room` and `machine_room_nearby`."""
    node_rooms: Mapping[int, str] | None = None
    """The machine room of each node id: for `machine_room_nearby`, and for `machine_room` if nodes keep to rooms."""
    plan: Mapping[PartitionKey, int] | None = None
    """The node id of every partition: for `config`."""
    node_names: Sequence[str] | None = None
    """A name for each node, by node id: for `consistent_hash`. Without it a node's name is its id in decimal digits."""
    virtual_nodes: int = 10
    """The number of points of each node on the ring of `consistent_hash`; 10 is RocketMQ's default."""

    def __post_init__(self) -> None:
        if self.virtual_nodes < 1:
            raise ConfigurationError(f"virtual_nodes must be 1 or more, not {self.virtual_nodes}")

    def names(self, source_count: int) -> list[str]:
        """Return the name of each node.

        Raises:
            ConfigurationError: `node_names` does not have a distinct name for each node.
        """
        if self.node_names is None:
            return [str(node) for node in range(source_count)]
        names = list(self.node_names)
        if not len(names) == len(set(names)) == source_count:
            raise ConfigurationError(f"node_names has {names}; each of {source_count} nodes needs its own name")
        return names


NO_HINTS = Hints()

Strategy = Callable[[Sequence[PartitionKey], int, Hints], Assignment]
"""Takes the sorted partitions, sourceCount (1 or more) and hints; returns a list for each node.

It must be a pure function: every node of a group computes it, and all must get the same result.
"""


def modulo(keys: Sequence[PartitionKey], source_count: int, hints: Hints = NO_HINTS) -> Assignment:
    """The sorted partitions one by one, as RocketMQ's AllocateMessageQueueAveragelyByCircle: number i to node i % n."""
    return [list(keys[node_id::source_count]) for node_id in range(source_count)]


def averagely(keys: Sequence[PartitionKey], source_count: int, hints: Hints = NO_HINTS) -> Assignment:
    """One run of the sorted partitions per node, longer ones first, as RocketMQ's AllocateMessageQueueAveragely."""
    size, longer = divmod(len(keys), source_count)
    cuts = [node * size + min(node, longer) for node in range(source_count + 1)]
    return [list(keys[start:end]) for start, end in pairwise(cuts)]


def config(keys: Sequence[PartitionKey], source_count: int, hints: Hints = NO_HINTS) -> Assignment:
    """By `hints.plan`, the node id of every partition: RocketMQ's AllocateMessageQueueByConfig, for all nodes."""
    if hints.plan is None:
        raise ConfigurationError("assignment strategy config needs the hint plan: the node id of every partition")
    nodes: Assignment = [[] for _ in range(source_count)]
    for key, node in hints.plan.items():
        if not 0 <= node < source_count:
            raise ConfigurationError(
                f"assignment strategy config: the plan gives partition {key} to node {node}; with sourceCount "
                f"{source_count} there are nodes 0 to {source_count - 1}"
            )
        nodes[node].append(key)
    return nodes


_Inner = Callable[[Sequence[PartitionKey], int], Assignment]


def machine_room(keys: Sequence[PartitionKey], source_count: int, hints: Hints = NO_HINTS) -> Assignment:
    """As RocketMQ's AllocateMessageQueueByMachineRoom: runs of equal length; the rest, from the end of the sorted
    partitions, goes one each to the first nodes. With `hints.node_rooms`, each room's partitions go to the nodes of
    that room in this way, and those of a room without nodes to all. RocketMQ leaves partitions of unnamed rooms unread;
    here it is an error."""
    if hints.node_rooms is None:
        _room_of_broker("machine_room", keys, hints)
        return _equal_runs_then_rest(keys, source_count)
    return _by_room("machine_room", keys, source_count, hints, _equal_runs_then_rest)


def machine_room_nearby(keys: Sequence[PartitionKey], source_count: int, hints: Hints = NO_HINTS) -> Assignment:
    """As RocketMQ's AllocateMachineRoomNearby with its AllocateMessageQueueAveragely: each room's partitions go
    `averagely` to the nodes of that room, and those of a room without nodes to all."""
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
    """Node = Java hash of the key's text, as an unsigned 32-bit number, % n, as in TubeMQ's example client: for groups
    shared with such clients."""
    nodes: Assignment = [[] for _ in range(source_count)]
    for key in keys:
        nodes[(java_string_hash(str(key)) & 0xFFFFFFFF) % source_count].append(key)
    return nodes


def consistent_hash(keys: Sequence[PartitionKey], source_count: int, hints: Hints = NO_HINTS) -> Assignment:
    """On a ring, as RocketMQ's AllocateMessageQueueConsistentHash does with its own hash: MD5's first 32 bits.

    Each node has `hints.virtual_nodes` points, hashed from its name, "-" and 0, 1, ... A partition goes to the first
    point at or after its own hash, that of RocketMQ's MessageQueue with the broker id as the broker's name. So a new
    node takes partitions from the others and moves nothing else, if nodes keep their names when node ids shift."""
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


def sticky(keys: Sequence[PartitionKey], source_count: int, hints: Hints = NO_HINTS) -> Assignment:
    """Leave partitions with their nodes of `hints.previous`, and move as few as possible so that sizes differ by at
    most one. New partitions, and those whose node is gone, go to the smallest nodes."""
    if hints.previous is None:
        raise ConfigurationError(
            "assignment strategy sticky needs the hint previous: the previous node id of each partition, or an empty "
            "map when the group first starts"
        )
    nodes, homeless = _as_before(keys, source_count, hints.previous)
    size, larger = divmod(len(keys), source_count)
    # The largest nodes may stay larger by one: each of those saves a move.
    for place, mine in enumerate(sorted(nodes, key=len, reverse=True)):
        most = size + (place < larger)
        homeless += mine[most:]
        del mine[most:]
    for key in sorted(homeless):
        min(nodes, key=len).append(key)
    return nodes


def _as_before(
    keys: Sequence[PartitionKey], source_count: int, previous: Mapping[PartitionKey, int]
) -> tuple[Assignment, list[PartitionKey]]:
    """The partitions by their former nodes, and those that are new or whose node is gone."""
    nodes: Assignment = [[] for _ in range(source_count)]
    homeless: list[PartitionKey] = []
    for key in keys:
        node = previous.get(key, -1)
        (nodes[node] if 0 <= node < source_count else homeless).append(key)
    return nodes, homeless


def backlog(keys: Sequence[PartitionKey], source_count: int, hints: Hints = NO_HINTS) -> Assignment:
    """Balance the rows of `hints.lag` with few moves, starting from `hints.previous`.

    New partitions, and those whose node is gone, go first, largest lag first, each to the node with fewest rows. Then,
    while the node with most rows has more than `enough_rows`, one of its partitions goes to the node with fewest, until
    no move would help. So no node ends with more rows than the larger of the largest partition's lag and 2n / (n + 1)
    times the mean of n nodes."""
    if hints.lag is None:
        raise ConfigurationError(
            "assignment strategy backlog needs the hint lag: the number of unread rows in each partition"
        )
    rows = {key: hints.lag.get(key, 0) for key in keys}
    wrong = [key for key, count in rows.items() if count < 0]
    if wrong:
        raise ConfigurationError(
            f"assignment strategy backlog: partition {wrong[0]} has a lag of {rows[wrong[0]]} rows"
        )
    nodes, homeless = _as_before(keys, source_count, hints.previous or {})
    loads = [sum(rows[key] for key in mine) for mine in nodes]
    for key in sorted(homeless, key=rows.__getitem__, reverse=True):
        taker = min(range(source_count), key=lambda node: (loads[node], len(nodes[node])))
        nodes[taker].append(key)
        loads[taker] += rows[key]
    enough = enough_rows(rows.values(), source_count)
    movable = [sorted((rows[key], key) for key in mine if rows[key]) for mine in nodes]
    while True:
        giver, taker = (choose(range(source_count), key=loads.__getitem__) for choose in (max, min))
        # The most rows that the taker can take and still have at most enough, so that few moves are needed. Otherwise
        # the fewest rows, if the taker then has less than the giver has now.
        place = max(0, bisect_right(movable[giver], enough - loads[taker], key=itemgetter(0)) - 1)
        if loads[giver] <= enough or loads[taker] + movable[giver][place][0] >= loads[giver]:
            break
        moving = movable[giver].pop(place)
        insort(movable[taker], moving)
        loads[giver] -= moving[0]
        loads[taker] += moving[0]
    return [
        [*(key for key in mine if not rows[key]), *(key for _, key in moved)]
        for mine, moved in zip(nodes, movable, strict=True)
    ]


def enough_rows(rows: Collection[int], source_count: int) -> int:
    """A node with up to so many rows is no reason to move anything, if partitions have `rows`."""
    return max([*rows, sum(rows) * 11 // (10 * source_count)])
