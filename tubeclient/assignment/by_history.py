"""The strategy that balances the number of partitions with the fewest moves."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heapreplace

from tubeclient.assignment.hints import NO_HINTS, Assignment, Hint, Hints, goes_by
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey

__all__ = ["nodes_before", "sticky"]


@goes_by(Hint.PREVIOUS)
def sticky(keys: Sequence[PartitionKey], source_count: int, hints: Hints = NO_HINTS) -> Assignment:
    """Leave partitions with their nodes of `hints.previous`, and move as few as possible so that sizes differ by at
    most one.

    New partitions, and those whose node is gone, go to the smallest nodes; with an empty `previous` this is `modulo`.
    ConfigurationError without `previous`.
    """
    nodes: Assignment = [[] for _ in range(source_count)]
    homeless: list[PartitionKey] = []
    for key, node in zip(keys, nodes_before("sticky", keys, source_count, hints), strict=True):
        (homeless if node < 0 else nodes[node]).append(key)
    size, larger = divmod(len(keys), source_count)
    # The largest nodes may stay larger by one: each of those saves a move.
    by_size = sorted(range(source_count), key=lambda node: -len(nodes[node]))
    for place, node in enumerate(by_size):
        most = size + (place < larger)
        homeless += nodes[node][most:]
        del nodes[node][most:]
    smallest_first = [(len(mine), node) for node, mine in enumerate(nodes)]
    heapify(smallest_first)
    for key in sorted(homeless):
        count, node = smallest_first[0]
        nodes[node].append(key)
        heapreplace(smallest_first, (count + 1, node))
    for mine in nodes:
        mine.sort()
    return nodes


def nodes_before(strategy: str, keys: Sequence[PartitionKey], source_count: int, hints: Hints) -> list[int]:
    """Return each partition's former node, -1 for new partitions and those whose node is gone."""
    if hints.previous is None:
        raise ConfigurationError(
            f"assignment strategy {strategy} needs the hint previous: the former node id of each partition, "
            "empty at a group's first start"
        )
    nodes = (hints.previous.get(key, -1) for key in keys)
    return [node if 0 <= node < source_count else -1 for node in nodes]
