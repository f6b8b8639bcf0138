"""The planner of a streaming query: holds the group, decides where batches begin and end, assigns their ranges.

Spark keeps one driver-side process per query and source for it. It connects with the first call that needs the cluster.
Spark applies no timeout and no retry to that process: every wait here has an end, and an exception ends the query.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack
from functools import cached_property
from typing import NamedTuple

from spark_source.cluster.cluster import TubeCluster, check_scope, default_node_count
from spark_source.offsets.offset_spec import OffsetSpec
from spark_source.offsets.offsets import Offsets
from spark_source.options.source_options import SourceOptions
from spark_source.plan.batch_plan import Assigner, BatchPlan, PartitionAssignment
from spark_source.plan.losses import data_loss, find_lost
from spark_source.plan.planning import plan, rows_to_read
from spark_source.plan.read_task import ReadTask, tasks_of
from spark_source.progress.progress_table import ProgressTable
from spark_source.stream.beginning import OffsetFinder, beginning, starts_again
from spark_source.stream.group_position import GroupPosition
from spark_source.stream.loss_judge import LossJudge
from spark_source.stream.snapshot import Layout, RunEnd, Snapshot, SnapshotCache
from tubeclient.errors import DataLoss
from tubeclient.keys import PartitionKey
from tubeclient.positions.offset_lookup import OffsetLookup

__all__ = ["StreamPlanner"]

_log = logging.getLogger(__name__)

_LOGGED_CHARACTERS = 300


class _Group(NamedTuple):
    """What a query works with while it holds its group."""

    finder: OffsetFinder
    snapshots: SnapshotCache
    judge: LossJudge
    assigner: Assigner


class _Question(NamedTuple):
    """Spark's question: where does the batch end?"""

    start: Offsets
    max_rows: int | None
    min_rows: int | None


class _Idle(NamedTuple):
    """A question whose answer was that there is nothing to do, and the snapshot of that time. An idle query asks about
    90 times a second, and this answers nearly all of it."""

    question: _Question
    snapshot: Snapshot
    is_delayed: bool
    """There are rows, but too few before `maxTriggerDelay` is over."""


class StreamPlanner:
    """Plans the batches of one query. Connects with the first call; `close` may come at any moment."""

    def __init__(
        self,
        options: SourceOptions,
        cluster: TubeCluster,
        progress: ProgressTable,
        clock: Callable[[], float] = time.monotonic,
        *,
        keeps_start: bool = False,
    ) -> None:
        """`keeps_start`: whoever asks keeps the starting offsets as soon as it has them, whatever comes of them."""
        self._options = options
        self._keeps_start = keeps_start
        self._cluster = cluster
        self._progress = progress
        self._position = GroupPosition(options, cluster, progress)
        self._clock = clock
        self._closing = ExitStack()
        """What to release at the end, in reverse order."""
        self._group: _Group | None = None
        self._scope_checked = False
        self._initial: Offsets | None = None
        self._first_batch_planned = False
        """Whether Spark has asked for the tasks of its first batch, or of a later one."""
        self._run_end: RunEnd | None = None
        self._first_snapshot: Snapshot | None = None
        self._delayed_until: float | None = None
        """Until then batches with too few rows are held back, `maxTriggerDelay` after the last one that was not. As in
        Spark's Kafka source a run's first batch is not held back."""
        self._idle: _Idle | None = None
        """The last look, if there was nothing to do."""

    def initial(self, known: Collection[PartitionKey] = ()) -> Offsets:
        """Where the query begins. Spark asks more than once, also after a restart if the first batch did not
        complete. With `keeps_start` a DataLoss, as `failOnDataLoss` has it, if brokers do not hold where a partition
        begins that is not `known`: what they lost of one that was read before is judged when it is to be read."""
        if self._initial is None:
            self._joined()  # which opens the table's run
            stored = self._progress.initial()
            self._initial, snapshot = self._new_start(known) if stored is None else self._stored_start(stored)
            self._position.begin(self._initial, snapshot)
        return self._initial

    def _stored_start(self, stored: Offsets) -> tuple[Offsets, Snapshot]:
        group, spec = self._joined(), self._options.start_of("stream")
        snapshot = group.snapshots.get()
        group.judge.check_stored(stored, snapshot, self._progress.forget_start)
        _log.log(
            logging.WARNING if spec.uses("latest") or spec.by_group else logging.INFO,
            "the query starts where it started last time, because the offsets table has those offsets. If you "
            "restarted the query, all is well. To start elsewhere, %s",
            self._progress.forget_start,
        )
        return stored, snapshot

    def _new_start(self, known: Collection[PartitionKey]) -> tuple[Offsets, Snapshot]:
        group, spec = self._joined(), self._options.start_of("stream")
        # Not past the run's end: data in between would look lost.
        snapshot = self._run_end.frozen if self._run_end is not None else group.snapshots.get(fresh=True)
        check_scope(self._options, snapshot.view)
        start = beginning(spec, snapshot.layout, snapshot.bounds, group.finder, waits=True)
        if self._keeps_start:  # once kept, what arrives before it would count as read
            group.judge.check_chosen(start.without(known), snapshot)
        # A time moves where no message is so late.
        at_end = spec.by_time and any(snapshot.bounds[key.store].max_offset == at for key, at in start.items())
        is_durable = self._keeps_start or self._progress.exists
        if not is_durable and (spec.uses("latest") or spec.by_group or at_end):
            _log.warning(
                "the starting offsets are final once Spark has planned the first batch; if the query stops before "
                "that, it starts later the next time. Set offsetsTable to keep the initial offsets"
            )
        _log.info("the query has no checkpoint and begins at %s", spec.text[:_LOGGED_CHARACTERS])
        self._progress.keep_initial(start, snapshot.bounds)
        self._first_snapshot = snapshot
        return start, snapshot

    def latest(self, start: Offsets, max_rows: int | None, min_rows: int | None = None) -> Offsets:
        """Where the batch that begins at `start` ends. Returns `start` if nothing is new, or if there are fewer than
        `min_rows` rows and `maxTriggerDelay` is not over.

        Spark asks only after the previous batch is complete, so `start` may go to the offsets table.
        """
        # A run with a fixed end: waiting would add nothing, and the last rows would never be read.
        question = _Question(start, max_rows, min_rows if self._run_end is None else None)
        while (end := self._end_of_batch(question)) is start and self._waited_for_silent():
            pass
        if end is start and self._run_end is not None:
            self._progress.finish()  # Spark may end the query now
        return end

    def _end_of_batch(self, question: _Question) -> Offsets:
        """`latest` with one look at the cluster."""
        group = self._joined()
        # While messages arrive, each batch should end at the brokers' current ends.
        recent = group.snapshots.get(busy=self._idle is None and self._run_end is None)
        if self._first_snapshot is not None:
            # The first batch uses the same look as the starting offsets, so it reads nothing at `latest`. After a
            # restart Spark asks for the starting offsets again; messages between the two answers would be lost.
            recent, self._first_snapshot = self._first_snapshot, None
        begin, max_rows, min_rows = question
        self._position.asked_from = begin
        if not self._scope_checked:
            check_scope(self._options, recent.view, begin)
            self._scope_checked = True
        # Spark asks on, so the previous batch is complete; also the first one, even if it was empty.
        complete = begin != self._initial or self._first_batch_planned
        idle = self._idle
        if (
            idle is not None
            and (idle.snapshot is recent and idle.question == question)
            and not (idle.is_delayed and self._delay_over)
        ):
            if complete:
                self._position.record(begin, recent)
            return begin
        available = begin
        try:
            ends = None if self._run_end is None else self._run_end.ends
            recent, available = group.judge.still_available(begin, recent, ends)
        finally:
            if available is not begin:
                self._position.went_back(begin)
            # If a lost tail is accepted, positions go back before a message arrives there: they never lead the sink.
            if complete:
                self._position.record(available, recent, back_from=None if available is begin else begin)
        partitions, bounds = recent.layout.readable, recent.bounds
        if self._run_end is not None:
            partitions, bounds = self._run_end.within(recent, available)
        is_delayed = False
        if min_rows is not None:
            is_delayed = not self._delay_over and rows_to_read(available, partitions, bounds) < min_rows
            if not is_delayed:
                self._delayed_until = self._clock() + self._options.max_trigger_delay_ms / 1000
        end = plan(available, partitions, bounds, 0 if is_delayed else max_rows, recent.growth)
        if self._run_end is not None and end is not available:
            end = self._run_end.capped(end, available)
        if end is begin:
            self._idle = _Idle(question, recent, is_delayed)
            return begin
        self._idle = None
        group.judge.planned(available, end, recent.bounds)
        return end

    def still_available(self, offsets: Offsets) -> Offsets:
        """`offsets` beyond the query's start, less what brokers lost of it. DataLoss if `failOnDataLoss` says so."""
        group = self._joined()
        _, available = group.judge.still_available(offsets, group.snapshots.get())
        return available

    def expired(self, offsets: Offsets) -> DataLoss | None:
        """The error of a read from `offsets`, if messages there had expired when the end was frozen, and
        `failOnDataLoss` says so."""
        assert self._run_end is not None
        lost = find_lost(offsets, self._run_end.frozen.bounds, self._options.selector())
        gone = [loss for loss in lost if loss.kind == "expired"]
        return data_loss(gone) if gone and self._options.fail_on_data_loss else None

    def complete(self, end: Offsets) -> None:
        """Record that everything before `end` is certainly in the sink, unless Spark has said so by asking for a
        batch."""
        if self._position.is_news(end):
            self._position.record(end, self._joined().snapshots.get())

    def partitions(self, start: Offsets, until: Offsets) -> list[ReadTask]:
        """The tasks of the batch from `start` to `until`; always the same ranges."""
        self._progress.check()
        group = self._joined()
        snapshot = group.snapshots.get()
        begin = start
        self._first_batch_planned = True
        # Two kinds of batches may go back and have nothing to read there: the first batch of an earlier run, which
        # began and ended before the current `latest`, and batches back to the end of a broker's data after an accepted
        # loss.
        replays_first = self._position.asked_from is None and begin == self._initial
        if begin == self._initial or not self._options.fail_on_data_loss:
            begin = begin.clamp({}, until)
        if replays_first:
            snapshot, begin = self._with_all_starts(begin, until, snapshot)
        snapshot, begin = group.judge.readable(begin, until, snapshot)
        planned = BatchPlan.of(
            begin, until, group.assigner.of_batch(snapshot.configured, begin, until), self._options.takeover
        )
        if start != until and planned != self._position.planned:
            _log.info("batch planned: %s", planned)
            self._position.planned = planned
        return tasks_of(planned, snapshot.view, self._options)

    def freeze_end(self, until: OffsetSpec | None = None) -> None:
        """Fix the query's end at the cluster's current end: Trigger.AvailableNow. Does not join the group: Spark calls
        this for all sources of a query first, and if it fails for one, never ends the processes of the others.

        With `until` partitions end at its places. Raises as OffsetFinder.find and RunEnd.
        """
        layout = Layout(self._options.selector(), self._cluster.fetch_view())
        frozen, ends = Snapshot.of(layout, self._lookup), Offsets({})
        if until is not None:
            finder = OffsetFinder(self._lookup, self._options, self._progress)
            ends = finder.find(until, layout.configured, layout.view_read, frozen.bounds)
        self._run_end = RunEnd(frozen, ends)

    def is_at_end(self, start: Offsets, *, is_first: bool) -> bool:
        """See RunEnd.is_reached."""
        assert self._run_end is not None
        return self._run_end.is_reached(start, is_first=is_first)

    def reported_latest(self) -> Offsets | None:
        """The ends of all partitions at the last look, or `until`, for Spark's progress; queries nobody."""
        snapshot = self._group.snapshots.last if self._group is not None else None
        if snapshot is None:
            return None
        until = {} if self._run_end is None else self._run_end.until
        return snapshot.latest.clamp({}, until)

    def close(self) -> None:
        """Write the last position, which the next run must find, and release the group, so that it need not wait."""
        self._position.close()
        self._group = None
        self._closing.close()

    def _joined(self) -> _Group:
        """Join the group and begin a run, once."""
        if self._group is not None:
            return self._group
        options, source_count = self._options, self._options.source_count
        if source_count is None:
            layout = Layout(options.selector(), self._cluster.fetch_view())
            source_count = default_node_count(len(layout.configured), options.readers_per_partition)
        lookup, membership = self._lookup, self._cluster.membership(source_count)
        self._closing.callback(membership.close)
        self._position.open(membership.join(options.group_join_timeout_ms), source_count)

        def report_to_master(assigned: PartitionAssignment) -> None:
            membership.report(dict(enumerate(assigned.by_node)))

        snapshots = SnapshotCache(options.selector(), membership, lookup, self._clock)
        finder = OffsetFinder(lookup, options, self._progress)
        hints, nodes_before = options.assignment_hints, self._progress.nodes
        assigner = Assigner(options.assignment_strategy, hints, source_count, nodes_before, report_to_master)
        _log.info(
            "the query holds the %d nodes of consumerGroup %s and reads %s",
            source_count,
            options.consumer_group,
            options.choice,
        )
        judge = LossJudge(membership, snapshots, options)
        self._group = _Group(finder, snapshots, judge, assigner)
        return self._group

    @cached_property
    def _lookup(self) -> OffsetLookup:
        """Needed before the group is held, by `freeze_end`. Closed after the group, because closing waits for
        pending calls."""
        lookup = self._cluster.lookup()
        self._closing.callback(lookup.close)
        return lookup

    def _with_all_starts(self, begin: Offsets, until: Offsets, snapshot: Snapshot) -> tuple[Snapshot, Offsets]:
        """`begin` with the starts of those partitions of a replayed first batch whose broker is silent: without one a
        partition would count as new at `until`, and what the batch has of it would never be read. ConnectError if the
        brokers do not answer for `retryLimit`."""
        missing = [key for key in until if key not in begin]
        if not missing:
            return snapshot, begin
        group, view = self._joined(), snapshot.layout.view_read
        if any(key.store not in snapshot.bounds for key in missing):
            self._lookup.bounds(view.without(view.brokers.keys() - {key.broker_id for key in missing}))
            snapshot = group.snapshots.get(fresh=True)
        starts = starts_again(missing, snapshot, group.finder)
        return snapshot, begin.merge({key: min(at, until[key]) for key, at in starts.items()})

    @property
    def _delay_over(self) -> bool:
        return self._delayed_until is None or self._clock() >= self._delayed_until

    def _waited_for_silent(self) -> bool:
        """After a look with nothing to do: whether brokers whose data the run lacks were silent and answer again.
        ConnectError if they do not answer for `retryLimit`."""
        run_end, idle = self._run_end, self._idle
        if run_end is None or idle is None:
            return False
        # Not from a newer look: a broker that answers since then has more.
        waited = run_end.waited_for_silent(idle.question.start, idle.snapshot, self._lookup)
        if waited:
            self._joined().snapshots.get(fresh=True)
        return waited
