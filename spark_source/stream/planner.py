"""The long-lived side of a streaming query: holds the group, says where batches begin and end, assigns their ranges.

Lives in the one driver-side process that Spark keeps per query and source, and starts with the first call that needs a
cluster. That process has no time-out above it and no retry: every wait in here is bounded, and an exception ends the
query.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import cached_property

from spark_source.cluster.cluster import Cluster, Lookup, check_scope, default_node_count
from spark_source.offsets.offsets import Offsets
from spark_source.options.source_options import SourceOptions
from spark_source.plan.batch_plan import BatchPlan
from spark_source.plan.planning import plan, rows_to_read
from spark_source.plan.read_task import ReadTask
from spark_source.progress.broker_positions import BrokerPositions
from spark_source.progress.position import Position
from spark_source.progress.progress_table import ProgressTable
from spark_source.stream.batch_tasks import tasks_of
from spark_source.stream.beginning import beginning
from spark_source.stream.held_group import HeldGroup
from spark_source.stream.idle_look import IdleLook, Question
from spark_source.stream.parsed_offsets import Json, ParsedOffsets
from spark_source.stream.silent_brokers import SilentBrokers
from spark_source.stream.snapshot import Layout, Snapshot
from spark_source.stream.target import Reach, Target
from spark_source.stream.trigger_delay import TriggerDelay
from tubeclient.keys import PartitionKey

__all__ = ["StreamPlanner"]

_log = logging.getLogger(__name__)

_LOGGED_CHARACTERS = 300


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
        self._closing = ExitStack()
        """What to give back at the end, the last one first."""
        self._group: HeldGroup | None = None
        self._scope_checked = False
        self._initial: Offsets | None = None
        self._first_batch_planned = False
        """Spark has asked for the tasks of its first batch, or of a later one."""
        self._target: Target | None = None
        self._silent_brokers = SilentBrokers()
        self._planned: BatchPlan | None = None
        """The last batch that Spark asked the tasks of."""
        self._recorded: Position | None = None
        """The last position that is complete."""
        self._first_look: Snapshot | None = None
        self._delay = TriggerDelay(options.max_trigger_delay_ms, clock)
        self._idle: IdleLook | None = None
        """The last look, if there was nothing to do."""
        self._stands_at: Json | None = None
        """Where the last batch ended, where Spark does not say so each time."""
        self._offsets = ParsedOffsets()

    def initial(self) -> Json:
        """Where the query begins. Spark asks more than once, also after a restart if the first batch did not
        complete."""
        group = self._held()
        if self._initial is None:
            spec = self._options.start_of("stream")
            starting = self._options.place_rules.question(spec)
            kept = self._progress.initial(starting)
            if kept is not None:
                group.judge.check_kept(kept, group.snapshots.get(), self._progress.forget_start)
                self._initial = kept
            else:
                at_latest = spec.uses("latest") or (spec.by_time and self._options.unmatched == "latest")
                if not self._progress.exists and (at_latest or spec.uses("group")):
                    _log.warning(
                        "where the query begins is settled when Spark has planned its first batch; if it stops "
                        "before, it begins later the next time. Set offsetsTable, which keeps the first answer"
                    )
                # Not past the target: what lies between would look like data that the brokers lost.
                snapshot = self._target.frozen if self._target is not None else group.snapshots.get(fresh=True)
                self._silent_brokers.tell(snapshot)
                check_scope(self._options, snapshot.view)
                self._initial = beginning(
                    spec, snapshot.layout, snapshot.bounds, group.finder, self._progress, waits=True
                )
                _log.info("the query has no checkpoint yet and begins at %s", spec.text[:_LOGGED_CHARACTERS])
                self._progress.keep_initial(starting, self._initial)
                self._first_look = snapshot
        return self._initial.to_dict()

    def latest(self, start: Json, max_rows: int | None, min_rows: int | None = None) -> Json:
        """Where the batch that begins at `start` ends; `start` itself where nothing is new, or fewer than `min_rows`
        rows are and `maxTriggerDelay` is not over.

        Spark asks only when the batch before is complete, so `start` is what the offsets table may be told.
        """
        # Waiting for more rows would add nothing to a target, and the last ones would be left.
        question = Question(start, max_rows, min_rows if self._target is None else None)
        while (end := self._end_of_batch(question)) is start and self._waited_for_silent():
            pass
        if end is start and self._target is not None:
            self._progress.finish()  # Spark may end the query now
        return end

    def _end_of_batch(self, question: Question) -> Json:
        """As `latest`, by one look."""
        group = self._held()
        # While messages come, each batch is to end where the brokers end by then.
        recent = group.snapshots.get(busy=self._idle is None and self._target is None)
        if self._first_look is not None:
            # The first batch ends by the look that its beginning comes from, so that nothing of `latest` is in it: a
            # restart asks for the beginning again, and what was between the two answers would be read by nobody.
            recent, self._first_look = self._first_look, None
        start, max_rows, min_rows = question
        begin = self._offsets.parse(start)
        if not self._scope_checked:
            check_scope(self._options, recent.view, begin)
            self._scope_checked = True
        # Spark asks on, so the batch before is complete, and the first one too, be it one of nothing.
        complete = begin != self._initial or self._first_batch_planned
        if self._idle is not None and self._idle.answers(question, recent, self._delay):
            if complete:
                self._record(begin, recent)
            return start
        held = begin
        try:
            recent, held = group.judge.held(begin, recent, None if self._target is None else self._target.ends)
        finally:
            # Where a lost tail is accepted, positions go back before a message comes there: they never lead the sink.
            if complete:
                self._record(held, recent, back_from=None if held is begin else begin)
        self._silent_brokers.tell(recent)
        group.judge.warn_unreadable(recent)
        partitions, bounds = self._reach(recent)
        entering = group.late_starts.entering(held, recent, bounds) if held.waiting else {}
        held_back = min_rows is not None and self._delay.holds_back(rows_to_read(held, partitions, bounds), min_rows)
        end = plan(held, partitions, bounds, 0 if held_back else max_rows, entering, recent.growth)
        if end is begin:
            self._idle = IdleLook(question, recent, held_back)
            return start
        self._idle = None
        return self._offsets.written(end)

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
        self._record(self._offsets.parse(end), self._held().snapshots.get())

    def partitions(self, start: Json, end: Json) -> list[ReadTask]:
        """The tasks of the batch from `start` to `end`; the same ranges whenever it is asked."""
        self._progress.check()
        group = self._held()
        snapshot = group.snapshots.get()
        begin, until = self._offsets.parse(start), self._offsets.parse(end)
        self._first_batch_planned = True
        if start == end:
            self._stands_at = end
        # Two kinds of batches may go back, and have nothing to read there: the first of an earlier run, which began and
        # ended before what is `latest` now, and those back to the end of a broker's data after an accepted loss.
        if begin == self._initial or not self._options.fail_on_data_loss:
            begin = begin.clamp({}, until)
        snapshot, begin = group.judge.readable(begin, until, snapshot)
        planned = BatchPlan.of(
            begin, until, group.assigner.of_batch(snapshot.configured, begin, until), self._options.takeover
        )
        if start != end and planned != self._planned:
            _log.info("batch planned: %s", planned)
            self._planned = planned
        return tasks_of(planned, snapshot.view, self._options, self._options.slicing)

    def freeze_target(self) -> None:
        """From now on end where the cluster ends at this moment: Trigger.AvailableNow.

        Does not join the group: Spark makes this call to all sources of a query before any other, and where it fails
        for one it never ends the others' processes, which would hold their groups for good.
        """
        layout = Layout(self._options.selector(), self._cluster.fetch_view())
        self._target = Target(Snapshot.of(layout, self._lookup))

    def reported_latest(self) -> Json | None:
        """The ends of all partitions as of the last look, for Spark's progress; asks nobody."""
        snapshot = self._group.snapshots.held if self._group is not None else None
        return None if snapshot is None else snapshot.latest.to_dict()

    def close(self) -> None:
        """Give the group back, so that the next run need not wait for the master's lease to end.

        Before that the offsets table and the brokers get the last position: a run that is let in must find it.
        """
        self._progress.close()
        self._broker_positions.close()
        self._group = None
        self._closing.close()

    def _held(self) -> HeldGroup:
        """Join the group and begin a run, once."""
        if self._group is None:
            options, lookup = self._options, self._lookup
            source_count = options.source_count
            if source_count is None:
                layout = Layout(options.selector(), self._cluster.fetch_view())
                source_count = default_node_count(len(layout.configured), options.readers_per_partition)
            membership = self._cluster.membership(source_count)
            self._closing.callback(membership.close)  # a join that is broken off has nodes to give back as well
            view = membership.join(options.group_join_timeout_ms)
            if options.commit_offsets_to_broker:
                self._broker_positions.open(view)
            self._progress.open_run(source_count)
            self._group = HeldGroup.of(options, source_count, membership, lookup, self._progress.nodes, self._clock)
            _log.info(
                "the query holds the %d nodes of consumerGroup %s and reads %s",
                source_count,
                options.consumer_group,
                options.choice,
            )
        return self._group

    @cached_property
    def _lookup(self) -> Lookup:
        """Before the group is held as well: `freeze_target` needs it. To be closed behind the group, as it waits for
        what brokers are asked."""
        lookup = self._cluster.lookup()
        self._closing.callback(lookup.close)
        return lookup

    def _record(self, complete: Offsets, snapshot: Snapshot, back_from: Offsets | None = None) -> None:
        last, view = self._recorded, snapshot.view_told
        if last is None or last.complete != complete or last.view != view:
            planned = self._planned if self._planned is not None and self._planned.end == complete else None
            node_of: Mapping[PartitionKey, int] = {}
            if planned is not None:
                node_of = planned.assignment.node_of
            elif self._progress.exists:
                node_of = self._held().assigner.newest(snapshot.configured, complete).node_of
            last = Position(complete, snapshot.last_bounds, view, node_of, datetime.now(UTC), planned, back_from)
            self._recorded = last
        self._progress.record(last)
        self._broker_positions.record(last)

    def _reach(self, recent: Snapshot) -> Reach:
        """What may be planned by a look."""
        return Reach(recent.layout.readable, recent.bounds) if self._target is None else self._target.within(recent)

    def _waited_for_silent(self) -> bool:
        """Whether brokers that hold a part of the target were silent, and answer again; after a look with nothing to
        do. ConnectError where they do not answer for `retryLimit`."""
        target, idle = self._target, self._idle
        if target is None or idle is None:
            return False
        # By no newer look: who answers since has more.
        waited = target.waited_for_silent(self._offsets.parse(idle.question.start), idle.snapshot, self._lookup)
        if waited:
            self._held().snapshots.get(fresh=True)
        return waited
