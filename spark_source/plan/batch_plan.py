"""The plan of a batch: which node reads which ranges, and why. Used for tasks, the log and the offsets table."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush

from spark_source.offsets.offsets import Offsets
from spark_source.plan.assigning import PartitionAssignment
from spark_source.plan.planning import ranges
from tubeclient.keys import INDEX_ENTRY_BYTES, OffsetRange, PartitionKey
from tubeclient.names import MAX_READER_GROUPS

__all__ = ["MOST_PARTS", "BatchPlan", "take_over"]

_LOGGED_RANGES = 20

MOST_PARTS = MAX_READER_GROUPS // 2
"""Of a partition, each read in a reader group of its own. The other groups are for looks, which readers make too."""


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
            for one in of_node:
                found[one.partition].append((one, node))
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
        told: dict[int, list[str]] = defaultdict(list)
        for (node, text), _ in zip(self._texts(), range(_LOGGED_RANGES), strict=False):
            told[node].append(text)
        nodes = "; ".join(f"node {node} reads {', '.join(texts)}" for node, texts in told.items())
        more = f"; and {count - _LOGGED_RANGES} more ranges" if count > _LOGGED_RANGES else ""
        of = f"{len(self.by_node)} of {len(self.assignment.by_node)}"
        return f"{count} ranges for {of} nodes, assigned by {self.assignment.strategy}: {nodes}{more}"

    def _texts(self) -> Iterator[tuple[int, str]]:
        for node, of_node in self.by_node.items():
            for one in of_node:
                owner = self.assignment.node_of[one.partition]
                yield node, str(one) if owner == node else f"{one} (backlog of node {owner})"


def take_over(
    by_node: Mapping[int, Sequence[OffsetRange]], node_count: int, min_rows: int
) -> dict[int, Sequence[OffsetRange]]:
    """Return what each of the nodes 0 to `node_count` - 1 reads instead of `by_node`.

    The end of a range of more than `min_rows` index entries may go to another node, and so may the end of what is left
    and of what went. The sizes level the nodes' loads as far as possible: longest range first, least busy node first.
    Parts of less than half of `min_rows` are not worth a reader, and a partition has `MOST_PARTS` at most.
    Nodes with nothing to read are left out.
    """
    loads = {node: sum(one.max_messages for one in by_node.get(node, ())) for node in range(node_count)}
    parts = Counter(one.partition for of_node in by_node.values() for one in of_node)
    longest = [(-one.max_messages, one, node) for node, of_node in by_node.items() for one in of_node]
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
    for one in sorted(ranges):
        if found and (found[-1].partition, found[-1].end) == (one.partition, one.start):
            found[-1] = found[-1]._replace(end=one.end)
        else:
            found.append(one)
    return found
