"""The tasks of a batch: the ranges of one node of the group each, and what is known of their messages' offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition

from tubeclient.keys import BrokerInfo, OffsetRange, PartitionKey, StoreKey

if TYPE_CHECKING:  # tasks load this module, and do not need them
    from spark_source.offsets.offsets import Offsets
    from spark_source.options.subscription import Subscription
    from spark_source.plan.batch_plan import BatchPlan
    from tubeclient.metadata import ClusterView


@dataclass(frozen=True)
class ReadTask(InputPartition):
    """Ranges of one node, and their brokers. Sent to the executor; holds no password."""

    node_id: int
    ranges: Sequence[OffsetRange]
    """Read in order."""
    offset_rules: Mapping[StoreKey, OffsetRule]
    """How to know the offsets of messages, by store; UNKNOWN for stores without an entry."""
    brokers: tuple[BrokerInfo, ...]
    visit_token: int | None = field(default=None, compare=False, repr=False)
    """The master's visit token when the batch was planned, for brokers that check it."""

    store_sizes: Mapping[tuple[int, str], int] = field(default_factory=dict)
    """How many partitions a store has, by broker id and topic."""

    def __getstate__(self) -> dict[str, Any]:
        """The ranges as columns: Spark pickles each non-builtin object with a Python function call, and there may be
        thousands of ranges."""
        columns = list(zip(*((*key, start, end) for key, start, end in self.ranges), strict=True))
        rules = [(*key, rule) for key, rule in self.offset_rules.items()]
        return {**vars(self), "ranges": columns, "offset_rules": rules}

    def __setstate__(self, state: dict[str, Any]) -> None:
        ranges = [
            OffsetRange._make((PartitionKey(*key), at, end)) for *key, at, end in zip(*state["ranges"], strict=True)
        ]
        rules = {StoreKey(*store): rule for *store, rule in state["offset_rules"]}
        vars(self).update({**state, "ranges": ranges, "offset_rules": rules})

    def broker_of(self, key: PartitionKey) -> BrokerInfo:
        """The broker of `key`."""
        return next(broker for broker in self.brokers if broker.broker_id == key.broker_id)

    def offset_rule_of(self, key: PartitionKey) -> OffsetRule:
        """How to know the offsets of the partition's messages."""
        return self.offset_rules.get(key.store, OffsetRule.UNKNOWN)


class OffsetRule(Enum):
    """Whether the offsets of a partition's messages are known; decided from the layout, never from a pack."""

    UNKNOWN = "unknown"
    """Messages of other partitions, or filtered-out messages, lie between them: the column is null."""
    IF_COMPLETE = "if complete"
    """The partition was alone in its store when the batch was first planned, but no longer is. The offsets of a pack
    with a message for every index entry are known."""
    ALWAYS = "always"
    """The partition is alone in its store: every index entry is one of its messages, and a missing message is lost."""


def tasks_of(plan: BatchPlan, view: ClusterView, subscription: Subscription) -> list[ReadTask]:
    """Return one task for each node with something to read. TubeError if the cluster no longer lists the broker of a
    range; ranges are never dropped silently."""
    rules = offset_rules(subscription, plan.end, view)

    def rules_of(of_task: Sequence[OffsetRange]) -> dict[StoreKey, OffsetRule]:
        stores = {partition.store for partition, _, _ in of_task} if rules else set()
        return {store: rules[store] for store in sorted(stores & rules.keys())}

    def brokers_of(of_task: Sequence[OffsetRange]) -> tuple[BrokerInfo, ...]:
        by_id = {partition.broker_id: partition for partition, _, _ in of_task}
        return tuple(view.broker_of(by_id[broker_id]) for broker_id in sorted(by_id))

    def sizes_of(of_task: Sequence[OffsetRange]) -> dict[tuple[int, str], int]:
        layouts = {(key.broker_id, key.topic): view.layout_of(key) for key, _, _ in of_task}
        return {place: layout.partitions_per_store for place, layout in sorted(layouts.items()) if layout is not None}

    return [
        ReadTask(node_id, some, rules_of(some), brokers_of(some), view.visit_token, sizes_of(some))
        for node_id, some in sorted(plan.by_node.items())
    ]


def offset_rules(subscription: Subscription, end: Offsets, view: ClusterView) -> Mapping[StoreKey, OffsetRule]:
    """Return the rule of each store whose messages' offsets can be known; other stores have no entry.

    A replay must give equal rows, but partitions may join a store between a batch's first run and its replay. So the
    recorded offsets decide first: a store with one partition in them had one when the batch was planned.
    """
    if subscription.assigned:
        return {}  # other partitions may share the store
    rules = {}
    for store, runs in end.runs.items():
        if len(runs) == len(runs[0].ids) == 1 and not subscription.tags_of(store.topic):
            layout = view.layout_of(store)
            alone_now = layout is not None and layout.partitions_per_store == 1
            rules[store] = OffsetRule.ALWAYS if alone_now else OffsetRule.IF_COMPLETE
    return rules
