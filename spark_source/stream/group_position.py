"""The group that a query holds, and its position in the offsets table and on the brokers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime

from spark_source.cluster.cluster import TubeCluster, default_node_count
from spark_source.offsets.offsets import Offsets
from spark_source.options.source_options import SourceOptions
from spark_source.plan.assigning import Assigner, PartitionAssignment
from spark_source.plan.batch_plan import BatchPlan
from spark_source.progress.broker_positions import BrokerPositions
from spark_source.progress.position import Position
from spark_source.progress.progress_table import ProgressTable
from spark_source.stream.beginning import LateStarts, OffsetFinder
from spark_source.stream.loss_judge import LossJudge
from spark_source.stream.snapshot import Layout, Snapshot, SnapshotCache
from tubeclient.keys import PartitionKey
from tubeclient.metadata import ClusterView
from tubeclient.positions.offset_lookup import OffsetLookup

__all__ = ["GroupPosition", "HeldGroup"]


class GroupPosition:
    """One query's position. Spark tells a batch's completion by asking for the next one, or with `commit`."""

    def __init__(self, options: SourceOptions, cluster: TubeCluster, progress: ProgressTable) -> None:
        self._options = options
        self._table = progress
        self._brokers = BrokerPositions(options, cluster)
        self.planned: BatchPlan | None = None
        """The last batch whose tasks Spark asked for."""
        self.asked_from: Offsets | None = None
        """Where the query was when Spark last asked for a batch."""
        self._gone_back_from: Mapping[PartitionKey, int] = {}
        """Where the query was before it went back, because a lost tail was accepted."""
        self._recorded: Position | None = None
        """The last complete position."""

    def open(self, view: ClusterView, source_count: int) -> None:
        """Begin, once the query holds the group."""
        if self._options.commit_offsets_to_broker:
            self._brokers.open(view)
        self._table.open_run(source_count)

    def begin(self, initial: Offsets, snapshot: Snapshot) -> None:
        """The query begins at `initial`: nothing is complete yet."""
        self._brokers.begin(Position(initial, snapshot.bounds, snapshot.view_told, {}, datetime.now(UTC)))

    def went_back(self, begin: Offsets) -> None:
        """The query goes back from `begin`."""
        self._gone_back_from = begin.clamp(self._gone_back_from, {})

    def is_news(self, complete: Offsets) -> bool:
        """Whether Spark has not said yet that the sink has everything before `complete`.

        With asynchronous progress tracking it may be the end of an earlier batch, and after a lost tail no position.
        """
        asked_from = self.asked_from
        return asked_from is None or bool(asked_from.clamp(self._gone_back_from, {}).overtaken_by(complete))

    def record(
        self,
        complete: Offsets,
        snapshot: Snapshot,
        newest_nodes: Callable[[Offsets], Mapping[PartitionKey, int]],
        back_from: Offsets | None = None,
    ) -> None:
        """The sink has everything before `complete`; `newest_nodes` tells the nodes of a batch that another run
        planned."""
        last, view = self._recorded, snapshot.view_told
        if last is None or last.complete != complete or last.view != view:
            planned = self.planned if self.planned is not None and self.planned.end == complete else None
            node_of: Mapping[PartitionKey, int] = {}
            if planned is not None:
                node_of = planned.assignment.node_of
            elif self._table.exists:
                node_of = newest_nodes(complete)
            last = Position(complete, snapshot.last_bounds, view, node_of, datetime.now(UTC), planned, back_from)
            self._recorded = last
        self._table.record(last)
        self._brokers.record(last)

    def close(self) -> None:
        """Write the last position: the next run must find it."""
        self._table.close()
        self._brokers.close()


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
