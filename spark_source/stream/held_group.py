"""The objects of a query that holds its group; created together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from spark_source.cluster.cluster import TubeCluster, default_node_count
from spark_source.options.source_options import SourceOptions
from spark_source.plan.assigning import Assigner, PartitionAssignment
from spark_source.stream.beginning import OffsetFinder
from spark_source.stream.loss_judge import LossJudge
from spark_source.stream.silent_brokers import LateStarts
from spark_source.stream.snapshot import Layout, SnapshotCache
from tubeclient.keys import PartitionKey
from tubeclient.metadata import ClusterView
from tubeclient.positions.offset_lookup import OffsetLookup

__all__ = ["HeldGroup"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class HeldGroup:
    """What a query works with while it holds its group. Reports each new assignment to the master."""

    finder: OffsetFinder
    snapshots: SnapshotCache
    judge: LossJudge
    assigner: Assigner
    late_starts: LateStarts

    @classmethod
    def join(
        cls,
        options: SourceOptions,
        cluster: TubeCluster,
        lookup: OffsetLookup,
        closing: ExitStack,
        joined: Callable[[ClusterView, int], None],
        nodes_before: Callable[[], Mapping[PartitionKey, int]],
        clock: Callable[[], float],
    ) -> HeldGroup:
        """Join the group; `closing` releases it, also if this fails. `joined` is called next, with the layout and the
        number of nodes; `nodes_before` are the partitions' nodes in earlier runs, see Assigner."""
        source_count = options.source_count
        if source_count is None:
            layout = Layout(options.selector(), cluster.fetch_view())
            source_count = default_node_count(len(layout.configured), options.readers_per_partition)
        membership = cluster.membership(source_count)
        closing.callback(membership.close)
        joined(membership.join(options.group_join_timeout_ms), source_count)

        def tell_master(assigned: PartitionAssignment) -> None:
            membership.report(dict(enumerate(assigned.by_node)))

        reads = options.selector()
        snapshots = SnapshotCache(reads, membership, lookup, clock)
        finder = OffsetFinder(lookup, options.place_rules)
        judge = LossJudge(
            membership,
            snapshots,
            reads,
            fail_on_data_loss=options.fail_on_data_loss,
            retry_limit_ms=options.retry_limit_ms,
        )
        assigner = Assigner(
            options.assignment_strategy, options.assignment_hints, source_count, nodes_before, tell_master
        )
        _log.info(
            "the query holds the %d nodes of consumerGroup %s and reads %s",
            source_count,
            options.consumer_group,
            options.choice,
        )
        return cls(finder, snapshots, judge, assigner, LateStarts(finder))
