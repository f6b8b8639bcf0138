"""Which node of the group has which partitions, and what that makes of a batch: tasks."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from spark_source.cluster import reader_groups
from spark_source.node_partition import NodePartition
from spark_source.offset_rule import OffsetRule
from spark_source.offsets import Offsets
from spark_source.options import SourceOptions
from spark_source.planning import PlainRange, StoreNodes, nodes_by_store, ranges
from spark_source.slicing import slices
from spark_source.takeover import take_over
from tubeclient.assignment import assign, node_of
from tubeclient.keys import BrokerInfo, PartitionKey, StoreKey
from tubeclient.metadata import ClusterView

__all__ = ["Deal", "deal"]

_log = logging.getLogger(__name__)

_LOGGED_PIECES = 20


@dataclass(frozen=True)
class Deal:
    """Which node has which partitions."""

    by_node: Sequence[Sequence[PartitionKey]]
    node_of: Mapping[PartitionKey, int]

    @classmethod
    def of(cls, options: SourceOptions, partitions: Sequence[PartitionKey], source_count: int) -> Deal:
        """Deal `partitions`, the full configured set, as the options say."""
        by_node = assign(options.assignment_strategy, partitions, source_count, options.assignment_hints)
        return cls(by_node, node_of(by_node))

    @cached_property
    def by_store(self) -> Mapping[StoreKey, StoreNodes]:
        """The same by store."""
        return nodes_by_store(self.node_of)

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

    def rules_of(of_task: Sequence[PlainRange]) -> dict[StoreKey, OffsetRule]:
        stores = {partition.store for partition, _, _ in of_task} if rules else set()
        return {store: rules[store] for store in sorted(stores & rules.keys())}

    def brokers_of(of_task: Sequence[PlainRange]) -> tuple[BrokerInfo, ...]:
        by_id = {partition.broker_id: partition for partition, _, _ in of_task}
        return tuple(view.broker_of(by_id[broker_id]) for broker_id in sorted(by_id))

    by_node = ranges(start, end, nodes.by_store)
    if options.backlog_takeover:
        by_node, taken = take_over(
            by_node,
            len(nodes.by_node),
            min_rows=options.backlog_takeover_min_rows,
            max_readers=options.max_readers_per_partition,
        )
        if taken:
            more = f" and {len(taken) - _LOGGED_PIECES} more" if len(taken) > _LOGGED_PIECES else ""
            _log.info("backlog is taken over: %s%s", ", ".join(map(str, taken[:_LOGGED_PIECES])), more)
    cut = slices(
        by_node,
        min_tasks=options.min_partitions,
        max_rows=options.max_records_per_partition,
        reader_groups=len(reader_groups(options)),
    )
    return [
        NodePartition(
            piece.node_id,
            piece.ranges,
            rules_of(piece.ranges),
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
        if len(runs) == len(runs[0].ids) == 1 and not options.filters.get(store.topic):
            layout = view.layout_of(store)
            alone_now = layout is not None and layout.partitions_per_store == 1
            rules[store] = OffsetRule.ALWAYS if alone_now else OffsetRule.IF_COMPLETE
    return rules
