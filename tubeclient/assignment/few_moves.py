"""The strategies that begin with the present assignment: `sticky` balances partitions, `backlog` unread rows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from heapq import heapify, heappop, heappush, heapreplace

from tubeclient.assignment.hints import NO_HINTS, Assignment, Hints
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey


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


def backlog(keys: Sequence[PartitionKey], source_count: int, hints: Hints = NO_HINTS) -> Assignment:
    """Balance the rows of `hints.lag` with few moves, starting from `hints.previous` (nothing, if there is none).

    A node has enough with `enough_rows`: 1.1 times the mean, or the largest lag of one partition if that is more. While
    the node with most rows has more than enough, one of its partitions goes to the node with fewest, until no move
    would help. So no node ends with more rows than the larger of the largest partition's lag and 2n / (n + 1) times the
    mean, n being sourceCount. Nothing moves if every node has at most enough, and partitions without lag stay. Moves
    are few, not always the fewest possible.

    New partitions, and those whose node is gone, go first, largest lag first, each to the node with fewest rows, among
    equals to the one with fewest partitions. ConfigurationError without `lag`, and for a negative one.
    """
    rows = _rows_of(keys, hints)
    node_of = [-1] * len(keys) if hints.previous is None else nodes_before("backlog", keys, source_count, hints)
    loads, counts = [0] * source_count, [0] * source_count
    for index, node in enumerate(node_of):
        if node >= 0:
            loads[node] += rows[index]
            counts[node] += 1
    _place(rows, node_of, loads, counts)
    enough = enough_rows(rows, source_count)
    if max(loads) > enough:
        _relieve(rows, node_of, loads, enough)
    nodes: Assignment = [[] for _ in range(source_count)]
    for key, node in zip(keys, node_of, strict=True):
        nodes[node].append(key)
    return nodes


def enough_rows(rows: Collection[int], source_count: int) -> int:
    """A node with up to so many rows is no reason to move anything, if partitions have `rows`."""
    return max([*rows, sum(rows) * 11 // (10 * source_count)])


def _rows_of(keys: Sequence[PartitionKey], hints: Hints) -> list[int]:
    """The lag of each partition by its number; this module uses numbers for partitions."""
    if hints.lag is None:
        raise ConfigurationError("assignment strategy backlog needs the hint lag: rows not read yet of each partition")
    rows = [hints.lag.get(key, 0) for key in keys]
    if rows and min(rows) < 0:
        wrong = rows.index(min(rows))
        raise ConfigurationError(
            f"assignment strategy backlog: the lag of partition {keys[wrong]} is {rows[wrong]} rows, below 0"
        )
    return rows


def _place(rows: Sequence[int], node_of: list[int], loads: list[int], counts: Sequence[int]) -> None:
    """Find a node for each partition without one."""
    homeless = [index for index, node in enumerate(node_of) if node < 0]
    homeless.sort(key=rows.__getitem__, reverse=True)
    lightest_first = [(load, counts[node], node) for node, load in enumerate(loads)]
    heapify(lightest_first)
    for index in homeless:
        load, count, node = lightest_first[0]
        node_of[index] = node
        loads[node] = load + rows[index]
        heapreplace(lightest_first, (loads[node], count + 1, node))


def _relieve(rows: Sequence[int], node_of: list[int], loads: list[int], enough: int) -> None:
    """Move partitions from the node with most rows to the one with fewest until it has enough, or no move helps.

    Each move lowers the larger of the two nodes' loads, so it ends. The node with fewest rows never has more than
    enough, so each node either gives or takes until it has crossed that mark.
    """
    held: list[list[tuple[int, int]]] = [[] for _ in loads]
    for index, node in enumerate(node_of):
        if rows[index]:
            held[node].append((rows[index], index))
    givers = [(-load, node) for node, load in enumerate(loads) if load > enough]
    takers = [(load, node) for node, load in enumerate(loads) if load <= enough]
    heapify(givers)
    heapify(takers)
    for _, node in givers:
        held[node].sort()
    while givers:
        giver, taker = givers[0][1], takers[0][1]
        # The most rows that the taker can take and still have at most enough, so that few moves are needed. Otherwise
        # the fewest rows, if the taker then has less than the giver has now.
        place = bisect_right(held[giver], (enough - loads[taker], len(rows))) - 1
        if place < 0:
            place = 0
            if loads[taker] + held[giver][0][0] >= loads[giver]:
                return
        moving, index = held[giver].pop(place)
        held[taker].append((moving, index))
        node_of[index] = taker
        loads[giver] -= moving
        loads[taker] += moving
        if loads[giver] > enough:
            heapreplace(givers, (-loads[giver], giver))
        else:
            heappop(givers)
        if loads[taker] <= enough:
            heapreplace(takers, (loads[taker], taker))
        else:
            heappop(takers)
            held[taker].sort()
            heappush(givers, (-loads[taker], taker))
        if loads[giver] <= enough:
            heappush(takers, (loads[giver], giver))
