"""How what the nodes read becomes tasks: pure functions that cut ranges into slices.

The ranges of a node, one behind the other, are a line of index entries, and a slice is a stretch of that line: the
slices cover it once and in order, are of nearly equal size, and cut a range only where a border falls into it. An entry
is at most one row, so a slice of N entries has at most N rows.

Slices of one partition are read at once, each in a reader group of its own; those that find no group wait for one. So
what is a hint, the number of tasks, stops where a partition would be in more slices than there are groups, while a
limit of rows for each task is kept whatever that takes. Everything follows from offsets and options alone: a replayed
batch is cut the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from spark_source.options.node_options import Slicing
from spark_source.plan.sharing import share_rows
from tubeclient.keys import INDEX_ENTRY_BYTES, OffsetRange

__all__ = ["Slice", "cut", "slices"]


class Slice(NamedTuple):
    """What one task reads."""

    number: int
    """Counts the slices of a node, from 0."""
    node_id: int
    ranges: Sequence[OffsetRange]


def slices(by_node: Mapping[int, Sequence[OffsetRange]], slicing: Slicing) -> list[Slice]:
    """Cut the ranges of each node, all of them with something to read; without `min_tasks` and `max_rows`, a node is
    one slice.

    The first slices of all nodes come first: Spark starts tasks in this order, and slices of different nodes never
    wait for each other's reader groups. With `min_tasks` there are about as many slices (see above; never more than
    index entries), with `max_rows` each has at most so many entries, and with both there are enough for either.
    """
    min_tasks, max_rows, reader_groups = slicing
    if min_tasks is None and max_rows is None:
        return [Slice(0, node, of_node) for node, of_node in sorted(by_node.items())]
    counts = dict.fromkeys(by_node, 1)
    entries = {node: sum(one.max_messages for one in of_node) for node, of_node in by_node.items()}
    if min_tasks is not None and min_tasks > len(by_node):
        for node, share in share_rows(entries, min_tasks).items():
            counts[node] = min(share, _most_slices(by_node[node], entries[node], reader_groups))
    if max_rows is not None:
        for node, count in counts.items():
            counts[node] = max(count, -(-entries[node] // max_rows))
    return sorted(
        Slice(number, node, some)
        for node, of_node in by_node.items()
        for number, some in enumerate(cut(of_node, counts[node]))
    )


def cut(ranges: Sequence[OffsetRange], count: int) -> list[tuple[OffsetRange, ...]]:
    """Cut `ranges`, one behind the other, into those of `count` slices whose sizes differ by at most one entry.

    Borders are multiples of an index entry's size. `count` is from 1 to the number of entries.
    """
    entries = sum(one.max_messages for one in ranges)
    found: list[tuple[OffsetRange, ...]] = []
    open_slice: list[OffsetRange] = []
    done = 0  # entries in all slices, the open one included
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
    """How many slices a node can be cut into while no partition is in more of them than there are reader groups.

    A range that begins in the middle of a slice is in one more than its size says, so slices are made for one group
    less. With a single group, two neighbours may share a partition, and wait for each other.
    """
    longest = max(one.max_messages for one in ranges)
    return max(1, entries // -(-longest // max(1, reader_groups - 1)))
