"""Where the group is, told to the offsets table and the brokers: it never leads the sink."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from spark_source.cluster.cluster import TubeCluster
from spark_source.offsets.offsets import Offsets
from spark_source.options.source_options import SourceOptions
from spark_source.plan.batch_plan import BatchPlan
from spark_source.progress.broker_positions import BrokerPositions
from spark_source.progress.position import Position
from spark_source.progress.progress_table import ProgressTable
from spark_source.stream.snapshot import Snapshot
from tubeclient.keys import PartitionKey
from tubeclient.metadata import ClusterView

__all__ = ["GroupPosition"]


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
