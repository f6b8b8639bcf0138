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
