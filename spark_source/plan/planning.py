"""What a micro-batch reads: pure functions from positions, the stores' bounds and a row limit to exact ranges.

The partitions of a store share one index. An offset is a position in that index, and the entry there may belong to any
of the partitions. So a batch takes windows of each store's index, and every partition reads its messages in the window
that begins at its position. A limit of N rows limits the windows' entries. It is exact if all partitions of each store
have the same offset. They do after the first batch, with two exceptions: the query began at offsets set by hand, or
partitions were added to a store in use at an unknown time. Those partitions are read beside the others until they catch
up.

Partitions with the same offset share a window that begins there. Some may lag behind: a partition added to a store in
use begins at the store's first offset, unless the store's end at that time is known. Each stretch between two positions
is a window of its own, so that no partition waits for another; the last one, from the foremost partitions to the
store's end, gets new messages. An index entry is one message of one partition, so the windows' entries are an upper
bound of the rows; lagging partitions pass entries again that others have passed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from spark_source.offsets.offsets import Offsets, PartitionRun, PartitionSet
from tubeclient.keys import INDEX_ENTRY_BYTES, OffsetRange, PartitionKey, StoreBounds, StoreKey
from tubeclient.positions.stores import StoreGrowth


def plan(
    start: Offsets,
    partitions: Iterable[PartitionKey],
    bounds: Mapping[StoreKey, StoreBounds],
    max_rows: int | None,
    growth: Mapping[StoreKey, StoreGrowth] | None = None,
) -> Offsets:
    """Return where the batch that begins at `start` ends; `start` itself if there is nothing to do.

    `partitions` can be read now; others, and those whose store has no bounds, keep their offsets. Partitions missing
    from `start` are new. They enter at their store's first offset, or at the first offset that may have their messages
    according to `growth`, but never before all other partitions. They are read from the next batch on, so that a range
    only depends on two recorded offsets. No partition moves backward or past its store's end. With `max_rows` the
    windows of all stores have at most so many entries, and exactly so many while there are enough. Every partition with
    something to read progresses, or takes turns if there are too few rows. Expired messages do not count; a batch may
    consist of nothing else. With 0 rows, only new partitions enter and expired messages are skipped.
    """
    readable = PartitionSet.of(partitions)
    known = _known_stores(start, readable, bounds)
    ends = window_ends({store: of_store.windows for store, of_store in known.items()}, max_rows)
    moved: dict[StoreKey, Sequence[PartitionRun]] = {}
    for store, of_store in known.items():
        pieces = [piece for run in of_store.runs for piece in _advanced(run, of_store.ids, bounds[store], ends[store])]
        if pieces != list(of_store.runs):
            moved[store] = pieces
    for store, limits in bounds.items():
        if store in known and known[store].ids is None:
            continue
        new: Collection[int] = readable.ids_of(store).difference(*(run.ids for run in start.runs.get(store, ())))
        if new:
            runs = start.runs.get(store, ())
            entered = [
                PartitionRun(number, number, _entry(number, runs, limits, (growth or {}).get(store))) for number in new
            ]
            moved[store] = sorted([*moved.get(store, runs), *entered])
    return Offsets.of_runs({**start.runs, **moved}) if moved else start


def _entry(partition_id: int, others: Sequence[PartitionRun], limits: StoreBounds, growth: StoreGrowth | None) -> int:
    """Where a new partition enters a store that has `others`.

    Never before all others, whatever `growth` proves: if the broker loses the end of its data and is written to again
    unnoticed, this partition skips nothing that the others do not skip too.
    """
    begin = growth.begin_of(partition_id) if growth is not None else None
    if begin is None or not others:
        return limits.min_offset
    return limits.nearest(min(begin, max(run.offset for run in others)))


def _advanced(
    run: PartitionRun, ids: frozenset[int] | None, limits: StoreBounds, ends: Mapping[int, int]
) -> list[PartitionRun]:
    """The run with its partitions in `ids` (None: all) moved to the end of the window that begins at its offset."""
    if ids is not None and ids.isdisjoint(run.ids):
        return [run]
    end = ends[limits.nearest(run.offset)]
    if run.offset >= end:
        return [run]
    if ids is None or ids.issuperset(run.ids):
        return [PartitionRun(run.first, run.last, end)]
    return [PartitionRun(number, number, end if number in ids else run.offset) for number in run.ids]


def rows_to_read(start: Offsets, partitions: Iterable[PartitionKey], bounds: Mapping[StoreKey, StoreBounds]) -> int:
    """Return the most rows that a batch without a limit could have: the entries of all windows."""
    return sum(of_store.windows.rows for of_store in _known_stores(start, PartitionSet.of(partitions), bounds).values())


class _KnownStore(NamedTuple):
    """A store with readable partitions that `start` has."""

    runs: Sequence[PartitionRun]
    """The positions of the store's partitions."""
    windows: StoreWindows
    ids: frozenset[int] | None
    """Ids of the readable partitions; `start` may lack some. None means exactly those in `start`."""


def _known_stores(
    start: Offsets, readable: PartitionSet, bounds: Mapping[StoreKey, StoreBounds]
) -> dict[StoreKey, _KnownStore]:
    found = {}
    all_known = start.spans == readable.spans
    for store, runs in start.runs.items():
        limits = bounds.get(store)
        if limits is None:
            continue
        ids: frozenset[int] | None = None
        if all_known or start.spans[store] == readable.spans.get(store):
            offsets = [run.offset for run in runs]
        else:
            ids = readable.ids_of(store)
            offsets = [run.offset for run in runs if not ids.isdisjoint(run.ids)]
        if offsets:
            found[store] = _KnownStore(runs, StoreWindows.of(offsets, limits), ids)
    return found


class StoreNodes(NamedTuple):
    """Partition to node, for one store."""

    ids: Sequence[int]
    """Partition ids, sorted."""
    members: Sequence[tuple[PartitionKey, int]]
    """Each partition and its node, in the order of `ids`."""

    def span(self, first: int, last: int) -> Sequence[tuple[PartitionKey, int]]:
        """The members from id `first` to `last`, inclusive; KeyError if a partition between them has no node."""
        at = bisect_left(self.ids, first)
        end = at + last + 1 - first
        if end > len(self.ids) or self.ids[at] != first or self.ids[end - 1] != last:
            raise KeyError(f"a partition from {first} to {last} has no node")
        return self.members[at:end]


def nodes_by_store(node_of: Mapping[PartitionKey, int]) -> dict[StoreKey, StoreNodes]:
    """Return the assignment by store, for faster look-ups among thousands of partitions."""
    found: dict[StoreKey, list[tuple[PartitionKey, int]]] = defaultdict(list)
    for pair in sorted(node_of.items()):
        found[pair[0].store].append(pair)
    return {store: StoreNodes([key.partition_id for key, _ in some], some) for store, some in found.items()}


def ranges(start: Offsets, end: Offsets, assigned: Mapping[StoreKey, StoreNodes]) -> dict[int, Sequence[OffsetRange]]:
    """Return what each node reads in the batch from `start` to `end`; without nodes that read nothing.

    A partition that only `end` has enters with this batch and is not read in it. `assigned` comes from
    `nodes_by_store`. ConfigurationError if a batch goes backward, KeyError if a partition with something to read has no
    node.
    """
    by_node: dict[int, list[OffsetRange]] = defaultdict(list)
    for store, steps in _steps(start, end):
        nodes = assigned[store]
        for first, last, at, until in steps:
            members = nodes.span(first, last)
            if until < at:
                OffsetRange(members[0][0], at, until)  # raises the error
            for key, node in members:  # thousands, and each checks its offsets
                by_node[node].append(OffsetRange._make((key, at, until)))
    return {node: by_node[node] for node in sorted(by_node)}


def entries_by_partition(start: Offsets, end: Offsets) -> dict[PartitionKey, int]:
    """Return how many index entries the batch from `start` to `end` has for each partition; without those that have
    none. The partitions of a store share its entries."""
    return {
        PartitionKey(store.broker_id, store.topic, number): (until - at) // INDEX_ENTRY_BYTES
        for store, steps in _steps(start, end)
        for first, last, at, until in steps
        if until > at
        for number in range(first, last + 1)
    }


def _steps(start: Offsets, end: Offsets) -> Iterator[tuple[StoreKey, list[tuple[int, int, int, int]]]]:
    """By store, (first id, last id, from, to) of the partitions that are in both and move."""
    for store, ends in end.runs.items():
        begins = start.runs.get(store, ())
        steps = []
        of_end = of_start = 0
        while of_end < len(ends) and of_start < len(begins):
            before, after = begins[of_start], ends[of_end]
            first, last = max(before.first, after.first), min(before.last, after.last)
            if first <= last and before.offset != after.offset:
                steps.append((first, last, before.offset, after.offset))
            if before.last <= after.last:
                of_start += 1
            if after.last <= before.last:
                of_end += 1
        if steps:
            yield store, steps


# Windows, and how a row limit is shared among them

_Sharer = TypeVar("_Sharer", StoreKey, tuple[StoreKey, int], int)
"""Who gets a share: a store, a window of its index, or a node."""


def share_rows(behind: Mapping[_Sharer, int], max_rows: int | None, turn: int = 0) -> dict[_Sharer, int]:
    """Share `max_rows` in proportion to the rows that each sharer is behind.

    A sharer gets at most what it is behind, and at least one row if there are enough. The sum is `max_rows`, or
    everything if that is less. If there are fewer rows than sharers with something to read, consecutive sharers get one
    row each, starting at number `turn`. If `turn` is the number of rows shared out so far, all sharers take turns.
    """
    total = sum(behind.values())
    if max_rows is None or total <= max_rows:
        return dict(behind)
    shares = dict.fromkeys(behind, 0)
    waiting = [sharer for sharer, rows in behind.items() if rows]
    if max_rows <= len(waiting):
        everybody = sorted(behind)
        first = turn % len(everybody)
        in_turn = [sharer for sharer in everybody[first:] + everybody[:first] if behind[sharer]]
        return {**shares, **dict.fromkeys(in_turn[:max_rows], 1)}
    # One row for each, the rest in proportion to what remains. Integers only: the largest remainders get the rows left
    # by rounding down.
    spare, weights = max_rows - len(waiting), {sharer: behind[sharer] - 1 for sharer in waiting}
    all_weights = sum(weights.values())
    shares.update({sharer: 1 + spare * weight // all_weights for sharer, weight in weights.items()})
    by_remainder = sorted(weights, key=lambda sharer: (-(spare * weights[sharer] % all_weights), sharer))
    for sharer in by_remainder[: max_rows - sum(shares.values())]:
        shares[sharer] += 1
    return shares


class StoreWindows(NamedTuple):
    """The positions of a store's partitions, within its bounds."""

    levels: Sequence[int]
    """The partitions' offsets, distinct and rising; at least one."""
    end: int
    """The offset after the store's last."""

    @classmethod
    def of(cls, offsets: Iterable[int], limits: StoreBounds) -> StoreWindows:
        """From the partitions' `offsets`, of which some may be outside of the store's bounds."""
        return cls(sorted({limits.nearest(offset) for offset in offsets}), limits.max_offset)

    @property
    def rows(self) -> int:
        """The entries of all windows."""
        return (self.end - self.levels[0]) // INDEX_ENTRY_BYTES

    @property
    def in_front(self) -> int:
        """The entries of the last window."""
        return (self.end - self.levels[-1]) // INDEX_ENTRY_BYTES

    def ends(self, in_front: int, rows: Mapping[int, int]) -> dict[int, int]:
        """Where the partitions at each level end if they get so many rows; `in_front` for the last level. Partitions
        that reach the next level have caught up, and end where those do."""
        end = self.levels[-1] + in_front * INDEX_ENTRY_BYTES
        ends = {self.levels[-1]: end}
        for level, following in zip(self.levels[-2::-1], self.levels[:0:-1], strict=True):
            until = level + rows[level] * INDEX_ENTRY_BYTES
            end = end if until == following else until
            ends[level] = end
        return ends


def window_ends(windows: Mapping[StoreKey, StoreWindows], max_rows: int | None) -> dict[StoreKey, dict[int, int]]:
    """Return where each store's windows end, by the level at which they begin.

    With `max_rows` all windows together have so many entries, or all that exist. Each window with something to read
    gets some or, if there are too few, takes turns. The front windows get one part of the rows, the lagging windows two
    parts for each lagging window of the store that has most. So lagging partitions catch up whatever arrives, and then
    all continue together. What one part does not need goes to the other. Each part is shared in proportion to what is
    left to read.
    """
    in_front = {store: of_store.in_front for store, of_store in windows.items()}
    lagging = {
        (store, level): (following - level) // INDEX_ENTRY_BYTES
        for store, of_store in windows.items()
        for level, following in zip(of_store.levels, of_store.levels[1:], strict=False)
    }
    if max_rows is not None:
        # Rows move one level each, so these sums count the rows read. Turns depend on them.
        turn_in_front = sum(of_store.levels[-1] for of_store in windows.values()) // INDEX_ENTRY_BYTES
        turn_lagging = sum(level for _, level in lagging) // INDEX_ENTRY_BYTES
        turn = turn_in_front + turn_lagging
        part = 1 + 2 * max((len(of_store.levels) - 1 for of_store in windows.values()), default=0)
        least_in_front = (turn + max_rows) // part - turn // part
        rows = min(sum(in_front.values()), max(least_in_front, max_rows - sum(lagging.values())))
        in_front = share_rows(in_front, rows, turn_in_front)
        lagging = share_rows(lagging, max_rows - rows, turn_lagging)
    return {
        store: of_store.ends(in_front[store], {level: lagging[store, level] for level in of_store.levels[:-1]})
        for store, of_store in windows.items()
    }
