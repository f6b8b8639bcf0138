"""Which node reads which partitions, from batch to batch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from spark_source.offsets.offsets import Offsets, PartitionSet
from spark_source.plan.losses import find_gone
from spark_source.plan.planning import StoreNodes, entries_by_partition, nodes_by_store
from tubeclient.assignment import Hints, assign, goes_by_lag, goes_by_previous, node_of
from tubeclient.keys import PartitionKey, StoreKey

__all__ = ["Assigner", "PartitionAssignment"]

_log = logging.getLogger(__name__)


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
        self._assigned: tuple[PartitionSet, frozenset[PartitionKey]] | None = None
        self._batch: tuple[Offsets, Offsets] | None = None

    def newest(self, configured: PartitionSet, offsets: Offsets) -> PartitionAssignment:
        """The assignment of the configured partitions, and of those that only `offsets` have."""
        if self._assignment is not None and self._is_of(configured, offsets):
            return self._assignment
        return self._new(configured, offsets, {})

    def of_batch(self, configured: PartitionSet, start: Offsets, end: Offsets) -> PartitionAssignment:
        """The assignment for the batch from `start` to `end`; always the same for the same batch."""
        if not self._by_lag:
            return self.newest(configured, end)
        if self._assignment is None or self._batch != (start, end):
            self._assignment = self._new(configured, end, entries_by_partition(start, end))
            self._batch = start, end
        return self._assignment

    def _is_of(self, configured: PartitionSet, offsets: Offsets) -> bool:
        return (
            self._assigned is not None
            and self._assigned[0] is configured
            and self._assigned[1] == _gone(offsets, configured)
        )

    def _new(self, configured: PartitionSet, offsets: Offsets, lag: Mapping[PartitionKey, int]) -> PartitionAssignment:
        others = _gone(offsets, configured)
        former = self._assignment
        previous = self._before if former is None else former.node_of
        new = PartitionAssignment.of(
            self._strategy,
            sorted({*configured, *others}),
            self._source_count,
            replace(self._hints, previous=previous, lag=lag),
        )
        self._assignment, self._assigned, self._batch = new, (configured, others), None
        if former is None or new.by_node != former.by_node:
            _log.info("partitions are assigned by %s: %s", self._strategy, new.changes(previous))
            self._changed(new)
        return new


def _gone(offsets: Offsets, configured: PartitionSet) -> frozenset[PartitionKey]:
    return frozenset(key for key, _ in find_gone(offsets, configured))
