"""Turns a batch's plan into Spark tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spark_source.offsets.offsets import Offsets
from spark_source.options.subscription import Subscription
from spark_source.plan.batch_plan import BatchPlan
from spark_source.plan.offset_rule import OffsetRule
from spark_source.plan.read_task import ReadTask
from tubeclient.keys import BrokerInfo, OffsetRange, StoreKey
from tubeclient.metadata import ClusterView

__all__ = ["offset_rules", "tasks_of"]


def tasks_of(plan: BatchPlan, view: ClusterView, subscription: Subscription) -> list[ReadTask]:
    """Return one task for each node with something to read.

    TubeError if the cluster no longer lists the broker of a range; ranges are never dropped silently.
    """
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
