"""Cuts the nodes' ranges into slices, which become tasks: pure functions.

A node's ranges, joined, form a line of index entries, and a slice is a stretch of that line. The slices cover it once,
in order, and have nearly equal size. They cut a range only where a border falls into it. An entry is at most one row,
so a slice of N entries has at most N rows.

Slices of one partition are read in parallel, each in its own reader group; a slice without a free group waits. So
`min_tasks`, a hint, is not followed where a partition would need more slices than there are groups. The result depends
only on offsets and options: a replayed batch is cut in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from spark_source.options.node_options import Slicing
from spark_source.plan.windows import share_rows
from tubeclient.keys import INDEX_ENTRY_BYTES, OffsetRange

__all__ = ["Slice", "cut", "slices"]


class Slice(NamedTuple):
    """The ranges of one task."""

    number: int
    """Numbers the slices of a node, from 0."""
    node_id: int
    ranges: Sequence[OffsetRange]


def slices(by_node: Mapping[int, Sequence[OffsetRange]], slicing: Slicing) -> list[Slice]:
    """Cut the ranges of each node. All nodes must have something to read. Without `min_tasks` a node is one slice;
    otherwise there are about as many slices, see above; never more than index entries.

    The first slices of all nodes come first: Spark starts tasks in this order, and slices of different nodes never wait
    for each other's reader groups.
    """
    min_tasks, reader_groups = slicing
    if min_tasks is None or min_tasks <= len(by_node):
        return [Slice(0, node, of_node) for node, of_node in sorted(by_node.items())]
    entries = {node: sum(one.max_messages for one in of_node) for node, of_node in by_node.items()}
    shares = share_rows(entries, min_tasks)
    counts = {node: min(shares[node], _most_slices(by_node[node], entries[node], reader_groups)) for node in by_node}
    return sorted(
        Slice(number, node, some)
        for node, of_node in by_node.items()
        for number, some in enumerate(cut(of_node, counts[node]))
    )


def cut(ranges: Sequence[OffsetRange], count: int) -> list[tuple[OffsetRange, ...]]:
    """Cut the joined `ranges` into `count` slices whose sizes differ by at most one entry.

    Borders are multiples of an index entry's size. `count` is from 1 to the number of entries.
    """
    entries = sum(one.max_messages for one in ranges)
    found: list[tuple[OffsetRange, ...]] = []
    open_slice: list[OffsetRange] = []
    done = 0  # entries in all slices so far, including the open one
    for whole in ranges:
        at = whole.start
        while at < whole.end:
            border = entries * (len(found) + 1) // count
            until = min(whole.end, at + (border - done) * INDEX_ENTRY_BYTES)
            open_slice.append(OffsetRange(whole.partition, at, until))
            done += (until - at) // INDEX_ENTRY_BYTES
            at = until
            if done == border:
                found.append(tuple(open_slice))
                open_slice = []
    return found


def _most_slices(ranges: Sequence[OffsetRange], entries: int, reader_groups: int) -> int:
    """The most slices of a node such that no partition is in more of them than there are reader groups.

    A range that begins inside a slice is in one slice more than its size suggests, so this plans for one group less.
    With a single group, two neighbouring slices may share a partition, and one waits for the other.
    """
    longest = max(one.max_messages for one in ranges)
    return max(1, entries // -(-longest // max(1, reader_groups - 1)))
