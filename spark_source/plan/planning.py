"""What a micro-batch reads: pure functions from positions, the stores' bounds and a row limit to exact ranges.

The partitions of a store share one index, and an offset is a place in that index, whichever partition's message lies
there. So a batch takes windows of each store, and every partition of the store reads its messages in the one that
begins where it stands. A limit of N rows is a limit on the windows' entries; it is exact where all partitions of each
store stand at one offset, which they do after the first batch unless the query began at hand-set offsets, or partitions
were added to a store in use at a moment that nobody knows: those are read beside the others until they have met.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from spark_source.offsets.offsets import Offsets, Run
from spark_source.offsets.partition_set import PartitionSet
from spark_source.plan.windows import StoreWindows, clamped, window_ends
from tubeclient.keys import INDEX_ENTRY_BYTES, OffsetRange, PartitionKey, StoreBounds, StoreKey
from tubeclient.store_growth import StoreGrowth

__all__ = [
    "StoreNodes",
    "entries_by_partition",
    "nodes_by_store",
    "plan",
    "ranges",
    "rows_to_read",
]


def plan(
    start: Offsets,
    partitions: Iterable[PartitionKey],
    bounds: Mapping[StoreKey, StoreBounds],
    max_rows: int | None,
    entering: Mapping[PartitionKey, int] | None = None,
    growth: Mapping[StoreKey, StoreGrowth] | None = None,
) -> Offsets:
    """Return where the batch that begins at `start` ends; `start` itself where there is nothing to do.

    `partitions` may be read now: the others, and those whose store has no bounds, stay where they are. Those that
    `start` does not know are new: they enter at their store's first offset, or where `growth` proves that none of their
    messages comes before, but not in front of all others. They are read from the next batch on, so that a range never
    depends on anything but two recorded offsets. Those that wait in `start` enter in the same way, at
    what `entering` has for them, and wait on where it has nothing. Never moves a partition backward or past its store's
    end. With `max_rows` the windows of all stores have at most so many entries, and exactly so many while there are
    enough; every partition that has something to read gets on, or has its turn where there are too few rows for that
    (see windows.py). Messages that have expired are not counted; a batch may consist of nothing else. With 0 rows only
    new partitions enter, and what has expired is passed.
    """
    readable = PartitionSet.of(partitions)
    known = _known_stores(start, readable, bounds)
    ends = window_ends({store: one.windows for store, one in known.items()}, max_rows)
    moved: dict[StoreKey, Sequence[Run]] = {}
    for store, one in known.items():
        pieces = [piece for run in one.runs for piece in _advanced(run, one.ids, bounds[store], ends[store])]
        if pieces != list(one.runs):
            moved[store] = pieces
    for store, held in bounds.items():
        if store in known and known[store].ids is None:
            continue
        new: Collection[int] = readable.ids_of(store).difference(*(run.ids for run in start.runs.get(store, ())))
        if start.waiting:
            new = {number for number in new if PartitionKey(store.broker_id, store.topic, number) not in start.waiting}
        if new:
            runs = start.runs.get(store, ())
            entered = [Run(number, number, _entry(number, runs, held, (growth or {}).get(store))) for number in new]
            moved[store] = sorted([*moved.get(store, runs), *entered])
    planned = Offsets.of_runs({**start.runs, **moved}, start.waiting) if moved else start
    return planned.merge(entering) if entering else planned


def _entry(partition_id: int, others: Sequence[Run], held: StoreBounds, growth: StoreGrowth | None) -> int:
    """Where a new partition enters a store in which others stand.

    Not in front of them, whatever is proven: should the broker lose the end of its data and be written to again before
    anybody looks, then nothing is passed unread that the others would not have to pass as well.
    """
    begin = growth.begin_of(partition_id) if growth is not None else None
    if begin is None or not others:
        return held.min_offset
    return clamped(min(begin, max(run.offset for run in others)), held)


def _advanced(run: Run, ids: frozenset[int] | None, held: StoreBounds, ends: Mapping[int, int]) -> list[Run]:
    """The run with those of `ids`, all of them where that is None, moved to where the window ends that begins there."""
    if ids is not None and ids.isdisjoint(run.ids):
        return [run]
    end = ends[clamped(run.offset, held)]
    if run.offset >= end:
        return [run]
    if ids is None or ids.issuperset(run.ids):
        return [Run(run.first, run.last, end)]
    return [Run(number, number, end if number in ids else run.offset) for number in run.ids]


def rows_to_read(start: Offsets, partitions: Iterable[PartitionKey], bounds: Mapping[StoreKey, StoreBounds]) -> int:
    """Return how many rows a batch without a limit would have at most: the entries of all windows."""
    return sum(one.windows.rows for one in _known_stores(start, PartitionSet.of(partitions), bounds).values())


class _KnownStore(NamedTuple):
    """A store with partitions that `start` knows and that may be read."""

    runs: Sequence[Run]
    """Where the store's partitions stand."""
    windows: StoreWindows
    ids: frozenset[int] | None
    """Of the readable partitions; `start` need not know all of them. None where they are just those that it knows."""


def _known_stores(
    start: Offsets, readable: PartitionSet, bounds: Mapping[StoreKey, StoreBounds]
) -> dict[StoreKey, _KnownStore]:
    found = {}
    all_known = start.spans == readable.spans
    for store, runs in start.runs.items():
        held = bounds.get(store)
        if held is None:
            continue
        ids: frozenset[int] | None = None
        if all_known or start.spans[store] == readable.spans.get(store):
            offsets = [run.offset for run in runs]
        else:
            ids = readable.ids_of(store)
            offsets = [run.offset for run in runs if not ids.isdisjoint(run.ids)]
        if offsets:
            found[store] = _KnownStore(runs, StoreWindows.of(offsets, held), ids)
    return found


class StoreNodes(NamedTuple):
    """Which node has which partition of a store."""

    ids: Sequence[int]
    """Partition ids, sorted."""
    members: Sequence[tuple[PartitionKey, int]]
    """Each partition and its node, in the order of `ids`."""

    def span(self, first: int, last: int) -> Sequence[tuple[PartitionKey, int]]:
        """The members from one id to another, both included; KeyError where one between them has no node."""
        at = bisect_left(self.ids, first)
        end = at + last + 1 - first
        if end > len(self.ids) or self.ids[at] != first or self.ids[end - 1] != last:
            raise KeyError(f"a partition from {first} to {last} has no node")
        return self.members[at:end]


def nodes_by_store(node_of: Mapping[PartitionKey, int]) -> dict[StoreKey, StoreNodes]:
    """Return the same by store: thousands of partitions are found faster so."""
    found: dict[StoreKey, list[tuple[PartitionKey, int]]] = defaultdict(list)
    for one in sorted(node_of.items()):
        found[one[0].store].append(one)
    return {store: StoreNodes([key.partition_id for key, _ in some], some) for store, some in found.items()}


def ranges(start: Offsets, end: Offsets, assigned: Mapping[StoreKey, StoreNodes]) -> dict[int, Sequence[OffsetRange]]:
    """Return what each node reads in the batch from `start` to `end`; nodes with nothing are left out.

    A partition that only `end` knows enters with this batch and is not read in it. `assigned` is as `nodes_by_store`
    makes it. ConfigurationError where a batch goes backward, KeyError where a partition with something to read has no
    node.
    """
    by_node: dict[int, list[OffsetRange]] = defaultdict(list)
    for store, steps in _steps(start, end):
        nodes = assigned[store]
        for first, last, at, until in steps:
            members = nodes.span(first, last)
            if until < at:
                OffsetRange(members[0][0], at, until)  # is the error
            for key, node in members:  # thousands, whose offsets are checked
                by_node[node].append(OffsetRange._make((key, at, until)))
    return {node: by_node[node] for node in sorted(by_node)}


def entries_by_partition(start: Offsets, end: Offsets) -> dict[PartitionKey, int]:
    """Return how many index entries the batch from `start` to `end` has for each partition; those with none are left
    out. The partitions of a store share its entries.
    """
    return {
        PartitionKey(store.broker_id, store.topic, number): (until - at) // INDEX_ENTRY_BYTES
        for store, steps in _steps(start, end)
        for first, last, at, until in steps
        if until > at
        for number in range(first, last + 1)
    }


def _steps(start: Offsets, end: Offsets) -> Iterator[tuple[StoreKey, list[tuple[int, int, int, int]]]]:
    """By store, (first id, last id, from, to) of the partitions that both know and that do not stay where they are."""
    for store, ends in end.runs.items():
        begins = start.runs.get(store, ())
        steps = []
        of_end = of_start = 0
        while of_end < len(ends) and of_start < len(begins):
            one, other = begins[of_start], ends[of_end]
            first, last = max(one.first, other.first), min(one.last, other.last)
            if first <= last and one.offset != other.offset:
                steps.append((first, last, one.offset, other.offset))
            if one.last <= other.last:
                of_start += 1
            if other.last <= one.last:
                of_end += 1
        if steps:
            yield store, steps
