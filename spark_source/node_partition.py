"""What one task of a batch reads: the ranges of one node of the group, or a slice of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyspark.sql.datasource import InputPartition

from spark_source.cluster import reader_groups
from spark_source.offset_rule import OffsetRule
from spark_source.offsets import Offsets
from spark_source.options import SourceOptions
from spark_source.planning import ranges
from spark_source.slicing import slices
from tubeclient.assignment import assign
from tubeclient.keys import BrokerInfo, OffsetRange, PartitionKey, StoreKey
from tubeclient.metadata import ClusterView

__all__ = ["Deal", "NodePartition", "PlannedRange", "deal"]


class PlannedRange(NamedTuple):
    """A range, and what is known about the offsets of its messages."""

    range: OffsetRange
    offset_rule: OffsetRule


@dataclass(frozen=True)
class NodePartition(InputPartition):
    """Ranges of one node, and the brokers that hold them. Travels to the executor; holds no password."""

    node_id: int
    reads: tuple[PlannedRange, ...]
    brokers: tuple[BrokerInfo, ...]
    slice_number: int = 0
    """Counts the tasks of the node in this batch."""
    visit_token: int | None = field(default=None, compare=False, repr=False)
    """What brokers that check it want to see: the master's, as it was when the batch was planned."""

    def __getstate__(self) -> dict[str, Any]:
        """By column: Spark pickles each object that is not Python's own with a call of a Python function, and there may
        be thousands of ranges.
        """
        of_ranges = ((*one.range.partition, one.range.start, one.range.end, one.offset_rule) for one in self.reads)
        return {**vars(self), "reads": list(zip(*of_ranges, strict=True))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        rows = zip(*state["reads"], strict=True)
        reads = (PlannedRange(OffsetRange(PartitionKey(*key), at, until), rule) for *key, at, until, rule in rows)
        vars(self).update({**state, "reads": tuple(reads)})

    def broker_of(self, key: PartitionKey) -> BrokerInfo:
        """The broker that holds `key`."""
        return next(broker for broker in self.brokers if broker.broker_id == key.broker_id)


@dataclass(frozen=True)
class Deal:
    """Which node has which partitions."""

    by_node: Sequence[Sequence[PartitionKey]]
    node_of: Mapping[PartitionKey, int]

    @classmethod
    def of(cls, options: SourceOptions, partitions: Sequence[PartitionKey], source_count: int) -> Deal:
        """Deal `partitions`, the full configured set, as the options say."""
        by_node = assign(options.assignment_strategy, partitions, source_count)
        return cls(by_node, {key: node for node, keys in enumerate(by_node) for key in keys})

    def changes(self, former: Deal | None) -> str:
        """One line of what this deal is, and what became of each partition since the former one."""
        sizes = [len(keys) for keys in self.by_node]
        each = f"{min(sizes)} to {max(sizes)}" if min(sizes) < max(sizes) else f"{max(sizes)}"
        text = f"{len(self.node_of)} partitions to {len(sizes)} nodes, {each} each"
        if former is None:
            return text
        new, gone = self.node_of.keys() - former.node_of.keys(), former.node_of.keys() - self.node_of.keys()
        moved = sum(former.node_of.get(key, node) != node for key, node in self.node_of.items())
        return f"{text}; {len(new)} are new, {len(gone)} are gone, {moved} have moved to another node"


def deal(options: SourceOptions, start: Offsets, end: Offsets, view: ClusterView, nodes: Deal) -> list[NodePartition]:
    """Return one partition for each node with something to read between `start` and `end`, or for each slice of that
    where the options ask for slices.

    The same batch is cut and dealt the same whenever it is asked for. TubeError where the cluster no longer lists the
    broker of a range: it is never left out in silence.
    """
    rules = _offset_rules(options, end, view)

    def planned(of_task: Sequence[OffsetRange]) -> Iterator[PlannedRange]:
        if not rules:
            return (PlannedRange(one, OffsetRule.UNKNOWN) for one in of_task)
        return (PlannedRange(one, rules.get(one.partition.store, OffsetRule.UNKNOWN)) for one in of_task)

    def brokers_of(of_task: Sequence[OffsetRange]) -> tuple[BrokerInfo, ...]:
        by_id = {one.partition.broker_id: one.partition for one in of_task}
        return tuple(view.broker_of(by_id[broker_id]) for broker_id in sorted(by_id))

    cut = slices(
        ranges(start, end, nodes.node_of),
        min_tasks=options.min_partitions,
        max_rows=options.max_records_per_partition,
        reader_groups=len(reader_groups(options)),
    )
    return [
        NodePartition(
            piece.node_id,
            tuple(planned(piece.ranges)),
            brokers_of(piece.ranges),
            piece.number,
            view.visit_token,
        )
        for piece in cut
    ]


def _offset_rules(options: SourceOptions, end: Offsets, view: ClusterView) -> dict[StoreKey, OffsetRule]:
    """Return the rule of each store whose messages' offsets can be known; the others are not named.

    A replay has to give equal rows, and between a batch's first run and its replay partitions can be added to a store.
    So what the recorded offsets say comes first: a store with one partition in them had one when the batch was planned.
    """
    if options.assigned:
        return {}  # other partitions may share the store
    rules = {}
    for store, runs in end.runs.items():
        layout = view.layout_of(store)
        if len(runs) == len(runs[0].ids) == 1 and not options.filters.get(store.topic):
            alone_now = layout is not None and layout.partitions_per_store == 1
            rules[store] = OffsetRule.ALWAYS if alone_now else OffsetRule.IF_COMPLETE
    return rules
