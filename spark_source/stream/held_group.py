"""The objects of a query that holds its group; created together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from spark_source.cluster.cluster import Lookup
from spark_source.cluster.membership import Membership
from spark_source.options.source_options import SourceOptions
from spark_source.plan.assigning import Assigner, PartitionAssignment
from spark_source.stream.beginning import OffsetFinder
from spark_source.stream.late_starts import LateStarts
from spark_source.stream.loss_judge import LossJudge
from spark_source.stream.snapshot import SnapshotCache
from tubeclient.keys import PartitionKey

__all__ = ["HeldGroup"]


@dataclass(frozen=True)
class HeldGroup:
    """What a query works with while it holds its group. Reports each new assignment to the master."""

    finder: OffsetFinder
    snapshots: SnapshotCache
    judge: LossJudge
    assigner: Assigner
    late_starts: LateStarts

    @classmethod
    def of(
        cls,
        options: SourceOptions,
        source_count: int,
        membership: Membership,
        lookup: Lookup,
        nodes_before: Callable[[], Mapping[PartitionKey, int]],
        clock: Callable[[], float],
    ) -> HeldGroup:
        """`membership` has joined; `nodes_before` are the partitions' nodes in earlier runs, see Assigner."""

        def tell_master(assigned: PartitionAssignment) -> None:
            membership.report(dict(enumerate(assigned.by_node)))

        reads = options.selector()
        snapshots = SnapshotCache(reads, membership, lookup, clock)
        finder = OffsetFinder(lookup, options.place_rules)
        return cls(
            finder,
            snapshots,
            LossJudge(
                membership,
                snapshots,
                reads,
                fail_on_data_loss=options.fail_on_data_loss,
                retry_limit_ms=options.retry_limit_ms,
            ),
            Assigner(options.assignment_strategy, options.assignment_hints, source_count, nodes_before, tell_master),
            LateStarts(finder),
        )
