"""Which node reads which partitions, from batch to batch; and the plan of a batch: which node reads which ranges, and
why. Used for tasks, the log and the offsets table."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heapify, heappop, heappush

from spark_source.offsets.offsets import Offsets, PartitionSet
from spark_source.plan.losses import find_gone
from spark_source.plan.planning import StoreNodes, entries_by_partition, nodes_by_store, ranges
from tubeclient.assignment import Hints, assign, goes_by_lag, goes_by_previous, node_of
from tubeclient.keys import INDEX_ENTRY_BYTES, OffsetRange, PartitionKey, StoreKey
from tubeclient.names import MAX_READER_GROUPS

_log = logging.getLogger(__name__)

_LOGGED_RANGES = 20

MOST_PARTS = MAX_READER_GROUPS // 2
"""Of a partition, each read in a reader group of its own. The other groups are for looks, which readers make too."""


@dataclass(frozen=True)
class PartitionAssignment:
    """Partition to node, at one time."""

    strategy: str
    by_node: Sequence[Sequence[PartitionKey]]
    node_of: Mapping[PartitionKey, int]

    @classmethod
    def of(
        cls, strategy: str, partitions: Sequence[PartitionKey], source_count: int, hints: Hints
    ) -> PartitionAssignment:
        """Assign `partitions`, the full configured set. The hint `lag` has the index entries to read in each."""
        by_node = assign(strategy, partitions, source_count, hints)
        return cls(strategy, by_node, node_of(by_node))

    @cached_property
    def by_store(self) -> Mapping[StoreKey, StoreNodes]:
        """The assignment by store."""
        return nodes_by_store(self.node_of)

    def changes(self, former: Mapping[PartitionKey, int]) -> str:
        """A line about this assignment and its changes since `former` (partition to former node); empty for the first
        assignment."""
        sizes = [len(keys) for keys in self.by_node]
        each = f"{min(sizes)} to {max(sizes)}" if min(sizes) < max(sizes) else f"{max(sizes)}"
        text = f"{len(self.node_of)} partitions to {len(sizes)} nodes, {each} each"
        if not former:
            return text
        new, gone = self.node_of.keys() - former.keys(), former.keys() - self.node_of.keys()
        moved = sum(former.get(key, node) != node for key, node in self.node_of.items())
        return f"{text}; {len(new)} are new, {len(gone)} are gone, {moved} have moved to another node"


class Assigner:
    """Assigns one query's partitions again when needed: when the partitions change, and before each batch if the
    strategy depends on the lag.

    `before` gives the nodes of earlier runs, called at once if the strategy needs them; `changed` gets each assignment
    that differs from the one before.
    """

    def __init__(
        self,
        strategy: str,
        hints: Hints,
        source_count: int,
        before: Callable[[], Mapping[PartitionKey, int]],
        changed: Callable[[PartitionAssignment], None],
    ) -> None:
        self._strategy = strategy
        self._hints = hints
        self._source_count = source_count
        self._before = before() if goes_by_previous(strategy) else {}
        self._changed = changed
        self._by_lag = goes_by_lag(strategy)
        self._assignment: PartitionAssignment | None = None
        self._of: tuple[object, ...] = ()
        """What the assignment depends on."""

    def of_batch(self, configured: PartitionSet, start: Offsets, end: Offsets) -> PartitionAssignment:
        """The assignment for the batch from `start` to `end`, of the configured partitions and of those that only `end`
        has; always the same for the same batch."""
        others = frozenset(key for key, _ in find_gone(end, configured))
        of = (configured, others, *((start, end) if self._by_lag else ()))
        former = self._assignment
        if former is not None and of == self._of:
            return former
        previous = self._before if former is None else former.node_of
        lag = entries_by_partition(start, end) if self._by_lag else {}
        hints = replace(self._hints, previous=previous, lag=lag)
        partitions = sorted({*configured, *others})
        new = PartitionAssignment.of(self._strategy, partitions, self._source_count, hints)
        self._assignment, self._of = new, of
        if former is None or new.by_node != former.by_node:
            _log.info("partitions are assigned by %s: %s", self._strategy, new.changes(previous))
            self._changed(new)
        return new


@dataclass(frozen=True)
class BatchPlan:
    """Which node reads what between `start` and `end`. Its text is one line, shortened if there are many ranges."""

    start: Offsets
    end: Offsets
    assignment: PartitionAssignment
    by_node: Mapping[int, Sequence[OffsetRange]]
    """The ranges of each node; without nodes that have none."""

    @classmethod
    def of(cls, start: Offsets, end: Offsets, assignment: PartitionAssignment, takeover: int | None) -> BatchPlan:
        """Plan the batch from `start` to `end`; always the same for the same `assignment`."""
        by_node: Mapping[int, Sequence[OffsetRange]] = ranges(start, end, assignment.by_store)
        if takeover is not None:
            by_node = take_over(by_node, len(assignment.by_node), takeover)
        return cls(start, end, assignment, by_node)

    @cached_property
    def shared(self) -> Mapping[PartitionKey, Sequence[tuple[OffsetRange, int]]]:
        """The partitions that several nodes read in this batch: all parts in order, each with its node."""
        found: dict[PartitionKey, list[tuple[OffsetRange, int]]] = defaultdict(list)
        for node, of_node in self.by_node.items():
            for part in of_node:
                found[part.partition].append((part, node))
        owners = self.assignment.node_of
        return {key: sorted(parts) for key, parts in found.items() if any(node != owners[key] for _, node in parts)}

    def why(self, key: PartitionKey) -> str:
        """Why the partition is read by its node or nodes."""
        strategy = self.assignment.strategy
        return f"{strategy}; backlog taken over" if key in self.shared else strategy

    def __str__(self) -> str:
        count = sum(map(len, self.by_node.values()))
        if not count:
            return f"nothing to read; partitions are assigned by {self.assignment.strategy}"
        texts_of: dict[int, list[str]] = defaultdict(list)
        for (node, text), _ in zip(self._texts(), range(_LOGGED_RANGES), strict=False):
            texts_of[node].append(text)
        nodes = "; ".join(f"node {node} reads {', '.join(texts)}" for node, texts in texts_of.items())
        more = f"; and {count - _LOGGED_RANGES} more ranges" if count > _LOGGED_RANGES else ""
        of = f"{len(self.by_node)} of {len(self.assignment.by_node)}"
        return f"{count} ranges for {of} nodes, assigned by {self.assignment.strategy}: {nodes}{more}"

    def _texts(self) -> Iterator[tuple[int, str]]:
        for node, of_node in self.by_node.items():
            for part in of_node:
                owner = self.assignment.node_of[part.partition]
                yield node, str(part) if owner == node else f"{part} (backlog of node {owner})"


def take_over(
    by_node: Mapping[int, Sequence[OffsetRange]], node_count: int, min_rows: int
) -> dict[int, Sequence[OffsetRange]]:
    """Return what each of the nodes 0 to `node_count` - 1 reads instead of `by_node`.

    The end of a range of more than `min_rows` index entries may go to another node, and so may the end of what is left
    and of what went. The sizes level the nodes' loads as far as possible: longest range first, least busy node first.
    Parts of less than half of `min_rows` are not worth a reader, and a partition has `MOST_PARTS` at most.
    Nodes with nothing to read are left out.
    """
    loads = {node: sum(part.max_messages for part in by_node.get(node, ())) for node in range(node_count)}
    parts = Counter(part.partition for of_node in by_node.values() for part in of_node)
    longest = [(-part.max_messages, part, node) for node, of_node in by_node.items() for part in of_node]
    heapify(longest)
    read: dict[int, list[OffsetRange]] = defaultdict(list)
    while longest:
        minus_entries, whole, holder = heappop(longest)
        load, reader = min((load, node) for node, load in loads.items())
        entries = min((loads[holder] - load) // 2, -minus_entries)
        too_short = -minus_entries <= min_rows or entries < max(1, min_rows // 2)
        if too_short or parts[whole.partition] == MOST_PARTS:
            read[holder].append(whole)
            continue
        cut_at = whole.end - entries * INDEX_ENTRY_BYTES
        loads[reader] += entries
        loads[holder] -= entries
        heappush(longest, (-entries, whole._replace(start=cut_at), reader))
        if whole.start < cut_at:
            parts[whole.partition] += 1
            heappush(longest, (minus_entries + entries, whole._replace(end=cut_at), holder))
    return {node: _joined(of_node) for node, of_node in sorted(read.items())}


def _joined(ranges: Sequence[OffsetRange]) -> Sequence[OffsetRange]:
    """In order, with neighbours as one."""
    found: list[OffsetRange] = []
    for part in sorted(ranges):
        if found and (found[-1].partition, found[-1].end) == (part.partition, part.start):
            found[-1] = found[-1]._replace(end=part.end)
        else:
            found.append(part)
    return found
