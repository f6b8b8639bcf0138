"""The long-lived side of a streaming query: holds the group, says where batches begin and end, assigns their ranges.

Lives in the one driver-side process that Spark keeps per query and source, and starts with the first call that needs a
cluster. That process has no time-out above it and no retry: every wait in here is bounded, and an exception ends the
query.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from spark_source.cluster.cluster import Cluster, Lookup, Membership, check_scope, node_count, scope
from spark_source.offsets.offset_spec import resolve
from spark_source.offsets.offsets import Offsets
from spark_source.offsets.timestamps import without_times
from spark_source.options.source_options import SourceOptions
from spark_source.plan.assigning import Assigner, PartitionAssignment
from spark_source.plan.batch_plan import BatchPlan
from spark_source.plan.node_partition import NodePartition
from spark_source.plan.planning import plan, rows_to_read
from spark_source.progress.broker_positions import BrokerPositions
from spark_source.progress.progress_table import ProgressTable
from spark_source.stream.away import away_in_table, away_of
from spark_source.stream.batch_tasks import tasks_of
from spark_source.stream.group_positions import group_positions
from spark_source.stream.late_starts import LateStarts
from spark_source.stream.loss_judge import LossJudge
from spark_source.stream.silent_brokers import SilentBrokers, some_of
from spark_source.stream.snapshot import Snapshot, SnapshotCache
from spark_source.stream.target import Reach, Target
from spark_source.stream.trigger_delay import TriggerDelay
from tubeclient.errors import ConfigurationError, ConnectError, TubeError
from tubeclient.keys import PartitionKey

__all__ = ["StreamPlanner"]

_log = logging.getLogger(__name__)

_LOGGED_CHARACTERS = 300
_PARSED_KEPT = 4

Json = dict[str, dict[str, Any]]
"""Offsets as they stand in Spark's checkpoint."""


class _Idle(NamedTuple):
    """A look that gave nothing to do, so that there is nothing to do until something here has changed."""

    start: Json
    max_rows: int | None
    min_rows: int | None
    snapshot: Snapshot
    held_back: bool
    """There are rows, but too few before the delay is over."""


class StreamPlanner:
    """Plans the batches of one query. Nothing is contacted before the first call; `close` may come at any moment."""

    def __init__(
        self,
        options: SourceOptions,
        cluster: Cluster,
        progress: ProgressTable,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options = options
        self._cluster = cluster
        self._progress = progress
        self._broker_positions = BrokerPositions(options, cluster)
        self._clock = clock
        self._membership: Membership | None = None
        self._lookup: Lookup | None = None
        self._snapshots: SnapshotCache | None = None
        self._judge: LossJudge | None = None
        self._scope_checked = False
        self._initial: Offsets | None = None
        self._first_batch_planned = False
        """Spark has asked for the tasks of its first batch, or of a later one."""
        self._target: Target | None = None
        self._silent_brokers = SilentBrokers()
        self._late_starts: LateStarts | None = None
        self._assigner: Assigner | None = None
        self._planned: BatchPlan | None = None
        """The last batch that Spark asked the tasks of."""
        self._first_look: Snapshot | None = None
        self._delay = TriggerDelay(options.max_trigger_delay_ms, clock)
        self._idle: _Idle | None = None
        self._stands_at: Json | None = None
        """Where the last batch ended, where Spark does not say so each time."""
        self._busy = True
        """The last look gave a batch: while messages come, each batch is to end where the brokers end by then."""
        self._latest: tuple[Snapshot, Json] | None = None
        self._parsed: deque[tuple[Json, Offsets]] = deque(maxlen=_PARSED_KEPT)
        """What Spark brings back: where the batch begins and ends, and where the one before began."""

    def initial(self) -> Json:
        """Where the query begins. Spark asks more than once, also after a restart if the first batch did not
        complete."""
        snapshots = self._start()
        if self._initial is None:
            spec = self._options.start_of("stream")
            starting = self._options.question(spec)
            kept = self._progress.initial(starting)
            if kept is not None:
                self._judging().check_kept(kept, snapshots.get(), self._progress.forget_start)
                self._initial = kept
            else:
                at_latest = spec.uses("latest") or (spec.by_time and self._options.unmatched == "latest")
                if not self._progress.exists and (at_latest or spec.uses("group")):
                    _log.warning(
                        "where the query begins is settled when Spark has planned its first batch; if it stops "
                        "before, it begins later the next time. Set offsetsTable, which keeps the first answer"
                    )
                # Not past the target: what lies between would look like data that the brokers lost.
                snapshot = self._target.frozen if self._target is not None else snapshots.get(fresh=True)
                self._silent_brokers.tell(snapshot)
                check_scope(self._options, snapshot.view)
                in_table = away_in_table(self._options, spec, snapshot.view, self._progress)
                chosen, partitions = spec.with_known(in_table), {*snapshot.configured, *in_table, *in_table.waiting}
                if not self._options.fail_on_data_loss:
                    partitions.update(away_of(self._options, [key for key, _ in spec.named], snapshot.view))
                    chosen = chosen.without_unknown(partitions)
                chosen = chosen.with_new_from_earliest(partitions)
                self._initial = resolve(
                    without_times(
                        chosen,
                        partitions,
                        self._lookup_open(),
                        snapshot.view,
                        snapshot.bounds,
                        self._options.message_time_zone,
                        self._options.unmatched,
                    ),
                    partitions,
                    snapshot.bounds,
                    lambda: group_positions(
                        self._options, snapshot.layout.view_read, snapshot.bounds, self._lookup_open(), self._progress
                    ),
                    self._options.group_fallback,
                )
                _log.info("the query has no checkpoint yet and begins at %s", chosen.text[:_LOGGED_CHARACTERS])
                self._progress.keep_initial(starting, self._initial)
                self._first_look = snapshot
        return self._initial.to_dict()

    def latest(self, start: Json, max_rows: int | None, min_rows: int | None = None) -> Json:
        """Where the batch that begins at `start` ends; `start` itself where nothing is new, or fewer than `min_rows`
        rows are and `maxTriggerDelay` is not over.

        Spark asks only when the batch before is complete, so `start` is what the offsets table may be told.
        """
        while (end := self._end_of_batch(start, max_rows, min_rows)) is start and self._waited_for_silent(start):
            pass
        if end is start and self._target is not None:
            self._progress.finish()  # Spark may end the query now
        return end

    def _end_of_batch(self, start: Json, max_rows: int | None, min_rows: int | None) -> Json:
        """As `latest`, by one look."""
        recent = self._start().get(busy=self._busy and self._target is None)
        if self._first_look is not None:
            # The first batch ends by the look that its beginning comes from, so that nothing of `latest` is in it: a
            # restart asks for the beginning again, and what was between the two answers would be read by nobody.
            recent, self._first_look = self._first_look, None
        begin = self._parse(start)
        if not self._scope_checked:
            check_scope(self._options, recent.view, begin)
            self._check_checkpoint(begin)
            self._scope_checked = True
        # Spark asks on, so the batch before is complete, and the first one too, be it one of nothing.
        complete = begin != self._initial or self._first_batch_planned
        if self._target is not None:
            min_rows = None  # waiting would add nothing, and the last rows would be left
        idle = self._idle
        if (
            idle is not None
            and idle.snapshot is recent
            and idle[:3] == (start, max_rows, min_rows)
            and not (idle.held_back and self._delay.over)
        ):
            if complete:
                self._record(begin, recent)
            return start
        held = begin
        try:
            recent, held = self._judging().held(begin, recent, None if self._target is None else self._target.ends)
        finally:
            # Where a lost tail is accepted, positions go back before a message comes there: they never lead the sink.
            if complete:
                self._record(held, recent, back_from=None if held is begin else begin)
        self._silent_brokers.tell(recent)
        self._judging().warn_unreadable(recent)
        partitions, bounds = self._reach(recent)
        entering = self._late().entering(held, recent, bounds) if held.waiting else {}
        held_back = min_rows is not None and self._delay.holds_back(rows_to_read(held, partitions, bounds), min_rows)
        end = plan(held, partitions, bounds, 0 if held_back else max_rows, entering, recent.growth)
        self._busy = end is not begin
        if end is begin:
            self._idle = _Idle(start, max_rows, min_rows, recent, held_back)
            return start
        self._parsed.append((end.to_dict(), end))
        return end.to_dict()

    def latest_from_here(self) -> Json:
        """As `latest` without limits, for Spark before 4.2, which does not say where the batch begins.

        That is where the one before ended. Where a query with a checkpoint stands Spark tells once, before all else, by
        asking for the partitions of an empty batch there.
        """
        if self._stands_at is None:
            self._stands_at = self.initial()
        self._stands_at = self.latest(self._stands_at, None)
        return self._stands_at

    def complete(self, end: Json) -> None:
        """Note that everything before `end` is in the sink for certain."""
        self._record(self._parse(end), self._start().get())

    def partitions(self, start: Json, end: Json) -> list[NodePartition]:
        """The tasks of the batch from `start` to `end`; the same ranges whenever it is asked."""
        self._progress.check()
        snapshot = self._start().get()
        begin, until = self._parse(start), self._parse(end)
        self._first_batch_planned = True
        if start == end:
            self._stands_at = end
        # Two kinds of batches may go back, and have nothing to read there: the first of an earlier run, which began and
        # ended before what is `latest` now, and those back to the end of a broker's data after an accepted loss.
        if begin == self._initial or not self._options.fail_on_data_loss:
            begin = begin.clamp({}, until)
        snapshot, begin = self._judging().readable(begin, until, snapshot)
        planned = BatchPlan.of(
            self._options, begin, until, self._assigning().of_batch(snapshot.configured, begin, until)
        )
        if start != end and planned != self._planned:
            _log.info("batch planned: %s", planned)
            self._planned = planned
        return tasks_of(self._options, planned, snapshot.view)

    def freeze_target(self) -> None:
        """From now on end where the cluster ends at this moment: Trigger.AvailableNow.

        Does not join the group: Spark makes this call to all sources of a query before any other, and where it fails
        for one it never ends the others' processes, which would hold their groups for good.
        """
        view = self._cluster.fetch_view()
        self._target = Target(Snapshot.of(self._options, view, self._lookup_open()))

    def reported_latest(self) -> Json | None:
        """The ends of all partitions as of the last look, for Spark's progress; asks nobody."""
        snapshot = self._snapshots.held if self._snapshots is not None else None
        if snapshot is None:
            return None
        if self._latest is None or self._latest[0] is not snapshot:
            self._latest = snapshot, snapshot.latest.to_dict()
        return self._latest[1]

    def close(self) -> None:
        """Give the group back, so that the next run need not wait for the master's lease to end.

        Before that the offsets table and the brokers get the last position: a run that is let in must find it.
        """
        self._progress.close()
        self._broker_positions.close()
        membership, lookup = self._membership, self._lookup
        self._membership = self._lookup = self._snapshots = None
        if membership is not None:
            membership.close()
        if lookup is not None:
            lookup.close()

    def _start(self) -> SnapshotCache:
        """Join the group and begin a run, once."""
        if self._snapshots is None:
            if self._options.source_count is None:
                source_count = node_count(self._options, scope(self._options, self._cluster.fetch_view()))
            else:
                source_count = self._options.source_count
            # Kept at once: a join that is broken off has nodes to give back as well.
            self._membership = self._cluster.membership(source_count)
            self._broker_positions.open(self._membership.join(self._options.group_join_timeout_ms))
            self._progress.open_run(source_count)
            self._assigner = Assigner(self._options, source_count, self._progress.nodes, self._tell_master)
            self._snapshots = SnapshotCache(self._options, self._membership, self._lookup_open(), self._clock)
            self._judge = LossJudge(self._options, self._membership, self._snapshots)
            _log.info(
                "the query holds the %d nodes of consumerGroup %s and reads %s",
                source_count,
                self._options.consumer_group,
                self._options.choice,
            )
        return self._snapshots

    def _judging(self) -> LossJudge:
        self._start()
        assert self._judge is not None
        return self._judge

    def _assigning(self) -> Assigner:
        self._start()
        assert self._assigner is not None
        return self._assigner

    def _late(self) -> LateStarts:
        if self._late_starts is None:
            self._late_starts = LateStarts(self._options, self._lookup_open())
        return self._late_starts

    def _lookup_open(self) -> Lookup:
        if self._lookup is None:
            self._lookup = self._cluster.lookup()
        return self._lookup

    def _parse(self, offsets: Json) -> Offsets:
        for text, known in reversed(self._parsed):
            if text == offsets:
                return known
        parsed = Offsets.from_dict(offsets)
        self._parsed.append((offsets, parsed))
        return parsed

    def _record(self, complete: Offsets, snapshot: Snapshot, back_from: Offsets | None = None) -> None:
        planned = self._planned if self._planned is not None and self._planned.end == complete else None

        def nodes() -> Mapping[PartitionKey, int]:
            assignment = (
                self._assigning().newest(snapshot.configured, complete) if planned is None else planned.assignment
            )
            return assignment.node_of

        self._progress.record(complete, snapshot.last_bounds, nodes, planned, back_from)
        self._broker_positions.record(complete, snapshot.view_told)

    def _reach(self, recent: Snapshot) -> Reach:
        """What may be planned by a look."""
        return Reach(recent.layout.readable, recent.bounds) if self._target is None else self._target.within(recent)

    def _waited_for_silent(self, start: Json) -> bool:
        """Whether brokers that hold a part of the target were silent, and answer again. ConnectError where they do not
        for `retryLimit`: Spark would take the query's end for that of all its data.
        """
        if self._target is None or self._idle is None:
            return False
        recent, reached = self._idle.snapshot, self._parse(start)  # by no newer look: who answers since has more
        left = self._target.left(reached, recent)
        if not left:
            return False
        try:
            self._lookup_open().bounds(recent.layout.view_read)
        except TubeError as error:
            at_latest = [key for key in left if reached.waiting.get(key) == "latest"]
            left_out = (
                f". {some_of(at_latest)} begin at `latest` only when a run hears their broker first: what is written "
                "there until then is left out. To have it, begin with a new checkpoint while all brokers answer, or at "
                "startingTimestamp or an offset of these partitions in startingOffsets"
                if at_latest
                else ""
            )
            raise ConnectError(
                f"Trigger.AvailableNow has read everything but {some_of(left)}, whose brokers do not answer: {error}. "
                f"What was read is complete and in the checkpoint; start the query again when they do{left_out}"
            ) from error
        self._start().get(fresh=True)
        return True

    def _tell_master(self, assigned: PartitionAssignment) -> None:
        if self._membership is not None:
            self._membership.report(dict(enumerate(assigned.by_node)))

    def _check_checkpoint(self, begin: Offsets) -> None:
        """Some topics of a checkpoint may have been left out since; with all of them it is another query's."""
        reads = self._options.selector()
        if begin and not any(reads(key) for key in begin):
            raise ConfigurationError(
                f"the checkpoint is of {', '.join(sorted({key.topic for key in begin}))}, and the query reads "
                f"{self._options.choice}; give it a checkpointLocation of its own"
            )
