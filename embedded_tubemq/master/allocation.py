"""Which client of a group reads which partition, where the master decides: TubeMQ's policy as pure functions.

Source: DefaultLoadBalancer. A master's first round cuts the partitions evenly. In later rounds everybody keeps what it
holds. Free partitions go to clients at random; in a round without free ones, clients that hold too many give some up.
So it takes some rounds until a group is even.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tubeclient.keys import PartitionKey

__all__ = ["Allocation", "Held", "first_allocation", "next_allocation", "required_allocation"]

Allocation = dict[str, list[PartitionKey]]
"""The partitions that each client shall have."""

Held = Mapping[str, Sequence[PartitionKey] | None]
"""The partitions that each client of a group has, by its last report; None before the first one."""


def first_allocation(clients: Iterable[str], partitions: Iterable[PartitionKey]) -> Allocation:
    """Of a master's first round: each topic's partitions, in order, cut into one run for each client, in order."""
    wanted: Allocation = {client: [] for client in sorted(clients)}
    by_topic: dict[str, list[PartitionKey]] = {}
    for key in sorted(partitions):
        by_topic.setdefault(key.topic, []).append(key)
    for keys in by_topic.values():
        least, more = divmod(len(keys), len(wanted))
        start = 0
        for number, run in enumerate(wanted.values()):
            end = start + least + (number < more)
            run += keys[start:end]
            start = end
    return wanted


def next_allocation(held: Held, partitions: Iterable[PartitionKey], choose: Callable[[int], int]) -> Allocation:
    """Of any later round; `choose(n)` returns a number below n.

    A client that has not reported yet gets no free partition, but what others give up.
    """
    free = set(partitions)
    count = len(free)
    wanted: Allocation = {}
    for client in sorted(held):
        wanted[client] = sorted(free & set(held[client] or ()))
        free -= set(wanted[client])
    if not free:
        return _evened_out(wanted, count)
    takers = [client for client in wanted if held[client] is not None]
    for key in sorted(free) if takers else ():
        wanted[takers[choose(len(takers))]].append(key)
    return wanted


def required_allocation(
    clients: Iterable[str], required: Mapping[PartitionKey, str], partitions: Iterable[PartitionKey]
) -> Allocation:
    """Of a group that is bound to offsets: first every client gets the existing partitions it gave offsets for.

    Clients that gave none are left out: nothing is decided about them yet.
    """
    known, existing = set(clients), set(partitions)
    wanted: Allocation = {}
    for key, client in sorted(required.items()):
        if client in known and key in existing:
            wanted.setdefault(client, []).append(key)
    return wanted


def _evened_out(kept: Allocation, count: int) -> Allocation:
    """Move partitions from clients with too many of the `count` to those with too few.

    A client that is one short of the most counts as full. So partitions may be left over: they stay free until the
    next round gives them to somebody.
    """
    least, more = divmod(count, len(kept))
    most = least + (more > 0)
    surplus: list[PartitionKey] = []
    room: dict[str, int] = {}
    for client, keys in kept.items():
        if len(keys) < most:
            if not keys or len(keys) < least:
                room[client] = most - len(keys)
            continue
        target = most if more else least
        more -= more > 0
        surplus += keys[: len(keys) - target]
        kept[client] = keys[len(keys) - target :]
    for client, places in [*room.items(), *((client, 1) for client in room)]:
        kept[client] += surplus[:places]
        surplus = surplus[places:]
    return kept
