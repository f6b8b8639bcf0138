"""One run of the job: rounds of exact ranges, each one commit of the target. The target's newest commit is the only
checkpoint.

A round: the planner says where the next batch ends; Spark reads exactly that range and appends it, with the group's
next number and the new ends in the same commit; a look at the history shows that the commit is there, and what others
did meanwhile. That look is where the next round begins.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from spark_source.boundary import passed_on
from spark_source.cluster.cluster import TubeCluster
from spark_source.offsets.offsets import Offsets
from spark_source.options.access import client_settings
from spark_source.options.given import parse_options
from spark_source.options.source_options import SourceOptions
from spark_source.plan.read_task import ReadTask
from spark_source.progress.progress_table import ProgressTable
from spark_source.read.schema import spark_schema
from spark_source.read.task_read import read_task
from spark_source.session_confs import SESSION_ZONE, own_session
from spark_source.stream.planner import StreamPlanner
from spark_source.typed.record_format import MEANING
from tubeclient.keys import INDEX_ENTRY_BYTES, rows_behind
from tubeclient_ingest.bad_records import BadRecords
from tubeclient_ingest.beginning import (
    check_beginning,
    check_cluster,
    known_positions,
    named,
    of_topics,
    overtaken,
    start_text,
    starting_offsets,
    trusted,
)
from tubeclient_ingest.history import LATE, SinkState
from tubeclient_ingest.record import SinkRecord
from tubeclient_ingest.settings import GROUP, TARGET, IngestSettings
from tubeclient_ingest.target import SparkTable
from tubeclient_ingest.writing import Writer, goes_on_from

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Begins", "Engine", "Event", "IngestSummary", "Looked", "Reading", "Round", "Run"]

_IDLE_SECONDS: Final = 0.1
"""Between two questions whether there is something new, with a trigger without a pause."""
_LOOK_AGAIN_SECONDS: Final = 2.0
"""A look at the target that is older is taken again before a round is written."""


@dataclass(frozen=True, slots=True)
class Round:
    """One completed round."""

    time: str
    """When it completed: ISO 8601, UTC."""
    sequence: int
    """The group's number of its commit to the target."""
    rows: int
    total_rows: int
    """Of this run, including this round."""
    seconds: float
    """From its planning to the look at its commit."""
    rows_per_second: float
    rows_behind: int | None
    """Upper bound of the rows left to read; exact if all partitions of each store have the same offset."""
    bad_rows: int = 0
    """How many of `rows` are bad records."""
    total_bad_rows: int = 0
    """Of this run, including this round."""
    total_other_rows: int = 0
    """Beside the rows, with a key: records of this run that change no row, such as DDL and heartbeats."""


@dataclass(frozen=True, slots=True)
class IngestSummary:
    """What a run did."""

    rows: int
    rounds: int
    seconds: float
    rows_behind: int | None
    """Upper bound after the last round; None if the run has not looked at the brokers."""
    stopped: bool
    """True if it was asked to stop, False if it ended by itself."""
    bad_rows: int = 0
    """How many of `rows` are bad records."""
    other_rows: int = 0
    """Beside `rows`, with a key: records that change no row, such as DDL and heartbeats."""


class Begins(NamedTuple):
    """Event: where the run begins."""

    text: str


class Reading(NamedTuple):
    """Event: the first round is being read."""


class Looked(NamedTuple):
    """Event: there was nothing new."""

    at: datetime


Event: TypeAlias = Begins | Reading | Looked | Round
"""What a run tells, from its own thread; a Round is complete then."""


class Run:
    """One run; `until_end` is called once."""

    def __init__(
        self, engine: Engine, settings: IngestSettings, tell: Callable[[Event], object] = lambda _: None
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._tell = tell
        self._run_id = uuid.uuid4().hex
        self._options = parse_options(settings.options("earliest"))
        self.writer = engine.writer(settings, self._options, self._run_id)
        self._chosen = settings.starting_offsets
        """For the run's first beginning. "group" and "target" are about what others did before it."""
        self._looked_at = 0.0
        self._settled_at: int | None = None
        """The commit after which rows of bad records were removed that no commit stands for."""
        self._last: Round | None = None

    def until_end(self, stop: threading.Event, begin_anew: Sequence[str] = ()) -> None:
        """Write rounds until all is read that there was (available-now), `stop` is set, or something fails. After
        `stop` the running round is completed.

        With `begin_anew` only say in the target that the group begins these topics anew, and end. Raises Spark's
        errors, TubeError, OffsetsTableError.
        """
        if stop.is_set():
            return
        self.writer.open()
        while not stop.is_set():  # again after the target was put back
            with closing(ProgressTable(self._options)) as table:  # before the look at the rows, which move it
                topics = self._settings.topics
                kept = Offsets(table.positions(topics))
            state, starting, is_accepted = self._beginning(kept, begin_anew)
            options = parse_options(self._settings.options(starting))
            with closing(self._engine.planner(options)) as planner:
                if self._settings.interval_ms is None:
                    planner.freeze_target()
                start = planner.initial()
                ends = state.ends.merge(Offsets.from_dict(start))
                if state.record is None or is_accepted or ends.to_dict() != state.ends.to_dict():
                    # So that the next run begins there too, whatever becomes of this one.
                    state = self._written(None, ends, state)[0]
                # A killed run may have left the offsets table behind the target, and perhaps nothing new comes.
                planner.complete(start)
                if begin_anew or self._rounds(planner, options, start, state, stop):
                    return

    def _beginning(self, kept: Offsets, begin_anew: Sequence[str]) -> tuple[SinkState, str, bool]:
        """What the target says that this run can rely on, the source's startingOffsets, and whether the user takes the
        table as others left it."""
        settings, where = self._settings, self.writer.sink.where
        group, chosen = settings.consumer_group, self._chosen
        if chosen in (GROUP, TARGET):
            self._chosen = None
        found = self._look()
        check_cluster(found, where, self._options.master_servers, settings.former_master_servers)
        state = trusted(found.without_topics(begin_anew), where, group, chosen)
        in_table = of_topics(kept, set(settings.topics).difference(state.undone_topics))
        if not set(settings.topics).issubset(begin_anew):
            check_beginning(state, where, group, chosen, in_offsets_table=bool(in_table))
        known = known_positions(state.ends, in_table, settings.topics, chosen)
        starting = starting_offsets(known, settings.topics, settings.fallback)
        self._tell(Begins(start_text(known, state.ends, in_table, settings.topics, chosen)))
        return state, starting, found.taken_out is not None and found.taken_out.everything

    def _rounds(
        self, planner: StreamPlanner, options: SourceOptions, start: Any, state: SinkState, stop: threading.Event
    ) -> bool:
        """Rounds from `start` on. False if the target was put back meanwhile: then the run begins once more."""
        interval_ms = self._settings.interval_ms
        while not stop.is_set():
            began, began_at = time.monotonic(), datetime.now(UTC)
            end = planner.latest(start, options.max_offsets_per_trigger, options.min_offsets_per_trigger)
            if end == start:
                self._tell(Looked(began_at))
                if interval_ms is None:
                    return True
                stop.wait(max(_IDLE_SECONDS, interval_ms / 1000 - (time.monotonic() - began)))
                continue
            if self._last is None:
                self._tell(Reading())
            tasks = planner.partitions(start, end)
            if began - self._looked_at > _LOOK_AGAIN_SECONDS:
                now = self._look()
                if not goes_on_from(state, now):
                    self._check_not_overtaken(state, now)
                    self.writer.open(create=False)
                    return False
                state = now
            first, last = Offsets.from_dict(start), Offsets.from_dict(end)
            # Partitions that left the cluster leave the offsets. If the name returns, it begins anew.
            ends = state.ends.without(first.keys() - last.keys()).merge(last)
            rows = self._engine.rows(options, tasks) if tasks else None
            state, bad = self._written(rows, ends, state)
            planner.complete(end)
            planned = sum((one.end - one.start) // INDEX_ENTRY_BYTES for task in tasks for one in task.ranges)
            behind = planner.reported_latest()
            self._complete(
                state,
                planned if state.rows is None else state.rows + bad,
                bad,
                None if behind is None else rows_behind(Offsets.from_dict(behind), last),
                time.monotonic() - began,
            )
            start = end
            if interval_ms is not None and not stop.is_set():
                self.writer.sink.detail()  # Delta reads the table's state for it, and needs that for the next commit
                stop.wait(max(0.0, interval_ms / 1000 - (time.monotonic() - began)))
        return True

    def _written(self, rows: DataFrame | None, ends: Offsets, state: SinkState) -> tuple[SinkState, int]:
        record = SinkRecord(self._settings.consumer_group, self._run_id, ends, masters=self._options.master_servers)
        after, bad = self.writer.write(rows, record, state)
        self._looked_at = time.monotonic()
        after = trusted(after, self.writer.sink.where, self._settings.consumer_group, self._chosen)
        if self._settled_at is None or after.sequence - self._settled_at >= LATE:
            self.writer.settle(after)
            self._settled_at = after.sequence
        return after, bad

    def _look(self) -> SinkState:
        self._looked_at = time.monotonic()
        return self.writer.sink.look()

    def _check_not_overtaken(self, state: SinkState, now: SinkState) -> None:
        """Raise OvertakenRun if another run of the group has written since."""
        own, other = state.record, now.record
        if own is not None and other is not None and other.sequence > own.sequence and not other.is_retry:
            raise overtaken(self.writer.sink.where, other, f"and this one was at {named(own)}")

    def _complete(self, state: SinkState, rows: int, bad: int, behind: int | None, seconds: float) -> None:
        before = self._last
        assert state.record is not None
        self._last = Round(
            time=datetime.now(UTC).isoformat(timespec="milliseconds"),
            sequence=state.record.sequence,
            rows=rows,
            total_rows=(before.total_rows if before else 0) + rows,
            seconds=round(seconds, 3),
            rows_per_second=round(rows / seconds, 1) if seconds else 0.0,
            rows_behind=behind,
            bad_rows=bad,
            total_bad_rows=(before.total_bad_rows if before else 0) + bad,
            total_other_rows=(before.total_other_rows if before else 0) + self.writer.others,
        )
        self._tell(self._last)


class Engine:
    """What a run asks of Spark, by the session `spark`, classic or Connect, and of the cluster."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    @classmethod
    @contextmanager
    def on(cls, spark: SparkSession, settings: IngestSettings) -> Iterator[Engine]:
        """An engine in which records mean what `settings` say, whatever the settings of `spark`."""
        with own_session(spark, {**MEANING, SESSION_ZONE: settings.records.zone}) as own:
            yield cls(own)

    def planner(self, options: SourceOptions) -> StreamPlanner:
        cluster = TubeCluster(client_settings(options), options)
        return StreamPlanner(options, cluster, ProgressTable(options))

    def rows(self, options: SourceOptions, tasks: Sequence[ReadTask]) -> DataFrame:
        """The rows of the tasks' ranges, with the columns of the source; each computation reads the same ones."""
        # Each partition has one number, its task's: what Spark runs again reads the same ranges.
        numbers = self.spark.range(0, len(tasks), 1, len(tasks))
        return numbers.mapInArrow(_Tasks(options, tasks).read_all, spark_schema(options))

    def writer(self, settings: IngestSettings, options: SourceOptions, run_id: str) -> Writer:
        place = settings.bad_records
        return Writer(
            self.spark,
            settings,
            options,
            run_id,
            SparkTable(self.spark, settings.target),
            None if place is None else BadRecords(self.spark, place, settings.consumer_group),
            settings.records.record_format(),
        )


class _Tasks:
    """What the tasks of a round need: no access to the offsets table."""

    def __init__(self, options: SourceOptions, tasks: Sequence[ReadTask]) -> None:
        self._options = options.for_tasks()
        self._tasks = tasks

    def read(self, number: int) -> Iterator[pyarrow.RecordBatch]:
        return passed_on(read_task(self._options, self._tasks[number]))

    def read_all(self, numbers: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        """The function of the round's frame."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from self.read(number)
