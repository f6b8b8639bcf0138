"""One run of the job: rounds of exact ranges, each one commit of the target. The target's newest commit is the only
checkpoint.

A round: the planner says where the next batch ends; Spark reads exactly that range and appends it, with the group's
next number and the new ends in the same commit; a look at the history shows that the commit is there, and what others
did meanwhile. That look is where the next round begins.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from spark_source.cluster.cluster import TubeCluster
from spark_source.offsets.offsets import Offsets
from spark_source.options.given import parse_options
from spark_source.options.source_options import SourceOptions
from spark_source.plan.read_task import ReadTask
from spark_source.progress.progress_table import ProgressTable
from spark_source.session_confs import SESSION_ZONE, own_session
from spark_source.stream.planner import StreamPlanner
from spark_source.typed.columns import ARRIVAL
from spark_source.typed.record_format import PINNED
from tubeclient.errors import ConfigurationError
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey, rows_behind
from tubeclient.records.spec import CHANGES
from tubeclient_ingest.commits.beginning import TableChanged, of_topics, start_text, starting_offsets
from tubeclient_ingest.commits.levels import went_back
from tubeclient_ingest.commits.stream_ends import LeftBehind, ToRest
from tubeclient_ingest.rounds.bad_records import BadRecords
from tubeclient_ingest.rounds.group_table import RoundResult
from tubeclient_ingest.rounds.one_table import OneTable
from tubeclient_ingest.rounds.stream_rows import StreamRows
from tubeclient_ingest.rounds.stream_tables import Expired, StreamTables
from tubeclient_ingest.rounds.writing import TableCommit, Writer
from tubeclient_ingest.settings.ingest_settings import GROUP, TARGET, IngestSettings
from tubeclient_ingest.tables.formats import JobTable, table_at
from tubeclient_ingest.tables.spark_table import writing_confs
from tubeclient_ingest.tasks.round_read import RoundRead
from tubeclient_ingest.upkeep import Upkeep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Begins", "Engine", "Event", "Idle", "IngestSummary", "Ranges", "Reading", "Round", "Run", "SparkWrites"]

_ANEW_SECONDS: Final = 86_400.0
"""After so long a run without an end begins anew, so that tables that rest say again where their rows end."""
_BEGINNINGS: Final = 20
_ONE_BEGINNING_SECONDS: Final = 60.0
"""How often in turn a run may begin anew, each time within so long."""
_IDLE_SECONDS: Final = 0.1
"""Between two questions whether there is something new, with a trigger without a pause."""


@dataclass(frozen=True, slots=True)
class Round:
    """One completed round."""

    time: str
    """When it completed: ISO 8601, UTC."""
    sequence: int
    """The group's number of its commit to the target."""
    rows: int
    """Written to the target."""
    total_rows: int
    """Of this run, including this round."""
    seconds: float
    """From its planning to the look at its commit."""
    rows_per_second: float
    rows_behind: int | None
    """Upper bound of the rows left to read; exact if all partitions of each store have the same offset."""
    bad_rows: int = 0
    """Beside `rows`: bad records."""
    total_bad_rows: int = 0
    """Of this run, including this round."""
    total_other_rows: int = 0
    """Beside the rows, with a key: records of this run that change no row, such as DDL and heartbeats."""


@dataclass(frozen=True, slots=True)
class IngestSummary:
    """What a run did."""

    rows: int
    """Written to the target."""
    rounds: int
    seconds: float
    rows_behind: int | None
    """Upper bound after the last round; None if the run has not looked at the brokers."""
    stopped: bool
    """True if it was asked to stop, False if it ended by itself."""
    bad_rows: int = 0
    """Beside `rows`: bad records."""
    other_rows: int = 0
    """Beside `rows`, with a key: records that change no row, such as DDL and heartbeats."""


class Begins(NamedTuple):
    """Event: where the run begins."""

    text: str


class Reading(NamedTuple):
    """Event: the first round is being read."""


class Idle(NamedTuple):
    """Event: there was nothing new."""

    at: datetime


class SparkWrites(NamedTuple):
    """Event: Spark writes the rounds, and not the tasks that read them, which costs some three times as much."""

    reason: str


class Ranges(NamedTuple):
    """Event: the ranges of a round, which is in the tables."""

    start: Offsets
    end: Offsets


Event: TypeAlias = Begins | SparkWrites | Reading | Idle | LeftBehind | ToRest | Ranges | Round
"""What a run tells, from its own thread; a Round is complete then."""

Tables: TypeAlias = OneTable | StreamTables
"""Where a run's rounds go."""


class Run:
    """One run; `until_end` is called once."""

    def __init__(
        self, engine: Engine, settings: IngestSettings, on_event: Callable[[Event], object] = lambda _: None
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._on_event = on_event
        self._options = parse_options(settings.options("earliest"))
        self.tables: Tables = engine.tables(settings, self._options, on_event)
        self._chosen = settings.starting_offsets
        """For the run's first beginning. "group" and "target" are about what others did before it."""
        self._fallback = settings.fallback
        self._expired: Expired = lambda _: None
        self._last: Round | None = None
        self._why_spark = ""
        """What the run told of who writes."""

    def until_end(self, stop: threading.Event, reset_offsets: Sequence[str] = ()) -> None:
        """Write rounds until all is read that there was (available-now), `stop` is set, or something fails. After
        `stop` the running round is completed.

        With `reset_offsets` only say in the target that the group begins these topics anew, and end. Raises Spark's
        errors, TubeError, OffsetsTableError.
        """
        if stop.is_set():
            return
        with closing(self._engine.planner(self._options)) as planner:
            planner.freeze_end()  # a wrong address or topic is told before any table is made
            self._expired = planner.expired
        self.tables.open()
        beginnings = 0
        while not stop.is_set():  # again after a table was put back
            last, began_at, beginnings = self._last, time.monotonic(), beginnings + 1
            if beginnings > _BEGINNINGS:
                raise ConfigurationError(
                    f"{self.tables.checkpoint.where}, or the table of a stream, was replaced before a round was "
                    f"written, {_BEGINNINGS} times in a row. Stop whatever replaces it, and start again"
                )
            with closing(ProgressTable(self._options)) as table:  # before the look at the rows, which move it
                topics = self._settings.topics
                stored = Offsets(table.positions(topics))
            starting, known, is_accepted = self._beginning(stored, reset_offsets)
            options = parse_options(self._settings.options(starting))
            with closing(self._engine.planner(options)) as planner, suppress(TableChanged):
                until = None if reset_offsets else self._settings.end
                if self._settings.interval_ms is None:
                    planner.freeze_end(until)
                start = planner.initial(known)
                self.tables.check()
                is_first = self.tables.checkpoint.state.record is None
                done = until is not None and planner.is_at_end(start, is_first=is_first)
                if done:
                    self._on_event(Begins(f"nothing to read: the group is past until {self._settings.until}"))
                self.tables.record_start(start, is_accepted=is_accepted)
                if self._chosen in (GROUP, TARGET):
                    self._chosen, self._fallback = None, "earliest"
                # A killed run may have left the offsets table behind the target, and perhaps nothing new comes.
                planner.complete(start)
                if not (reset_offsets or done):
                    self._rounds(planner, options, start, stop)
                if not reset_offsets:
                    self.tables.end()
                return
            self.tables.open(create=False)
            if self._last is not last or time.monotonic() - began_at > _ONE_BEGINNING_SECONDS:
                beginnings = 0

    def _beginning(self, stored: Offsets, reset_offsets: Sequence[str]) -> tuple[str, set[PartitionKey], bool]:
        """The source's startingOffsets, the partitions that were read before, and whether the user takes the table as
        others left it."""
        settings, table, chosen = self._settings, self.tables.checkpoint, self._chosen
        is_accepted = table.begin(chosen, reset_offsets)
        known = of_topics(table.state.ends, settings.topics)
        begin = self.tables.begin(known, chosen, reset_offsets, self._expired)
        # Whoever says for topics with rows that the group's position counts, means one that is there.
        fallback = GROUP if reset_offsets and chosen == GROUP else self._fallback
        starting = starting_offsets(known, begin, settings.topics, fallback)
        self._on_event(Begins(start_text(known, stored.without_topics(reset_offsets), settings.topics, chosen)))
        return starting, {*known, *begin}, is_accepted

    def _rounds(self, planner: StreamPlanner, options: SourceOptions, start: Offsets, stop: threading.Event) -> None:
        """Rounds from `start` on. TableChanged if a table was put back meanwhile: then the run begins once more."""
        interval_ms = self._settings.interval_ms
        begun_at = time.monotonic()
        while not stop.is_set():
            if interval_ms is not None and time.monotonic() - begun_at > _ANEW_SECONDS:
                raise TableChanged
            began, began_at = time.monotonic(), datetime.now(UTC)
            if (ahead := self.tables.ends.ahead()) is not None:
                available = planner.still_available(ahead)
                if self.tables.go_back(available):
                    start = start.clamp({}, available)
            end = planner.latest(start, options.max_offsets_per_trigger, options.min_offsets_per_trigger)
            # Before any table has rows of what comes there now.
            lost = went_back(start, end)
            if lost and self.tables.go_back(lost):
                start = start.clamp({}, lost)
                continue
            if end == start:
                self._on_event(Idle(began_at))
                if interval_ms is None:
                    return
                stop.wait(max(_IDLE_SECONDS, interval_ms / 1000 - (time.monotonic() - began)))
                continue
            if self._last is None:
                self._on_event(Reading())
            end = self.tables.ends.end_of_round(start, end)
            tasks = planner.partitions(start, end)
            arrival = ARRIVAL if self._settings.key or self._settings.format in (None, *CHANGES) else None
            read = self._engine.read(options, tasks, arrival) if tasks else None
            if (why := self.tables.why_spark) != self._why_spark:
                self._why_spark = why
                if why:
                    self._on_event(SparkWrites(why))
            written = self.tables.write(read, start, end)
            if written is None:
                continue
            planner.complete(end)
            self._on_event(Ranges(start, end))
            planned = sum((part.end - part.start) // INDEX_ENTRY_BYTES for task in tasks for part in task.ranges)
            behind = planner.reported_latest()
            self._complete(
                written,
                planned - written.bad if written.rows is None else written.rows,
                None if behind is None else rows_behind(behind, end),
                time.monotonic() - began,
            )
            start = end
            if interval_ms is not None and not stop.is_set():
                self.tables.checkpoint.read_ahead()
                stop.wait(max(0.0, interval_ms / 1000 - (time.monotonic() - began)))

    def _complete(self, written: RoundResult, rows: int, behind: int | None, seconds: float) -> None:
        before = self._last
        self._last = Round(
            time=datetime.now(UTC).isoformat(timespec="milliseconds"),
            sequence=written.sequence,
            rows=rows,
            total_rows=(before.total_rows if before else 0) + rows,
            seconds=round(seconds, 3),
            rows_per_second=round(rows / seconds, 1) if seconds else 0.0,
            rows_behind=behind,
            bad_rows=written.bad,
            total_bad_rows=(before.total_bad_rows if before else 0) + written.bad,
            total_other_rows=(before.total_other_rows if before else 0) + written.others,
        )
        self._on_event(self._last)


class Engine:
    """What a run asks of Spark, by the session `spark`, classic or Connect, and of the cluster."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._upkeep = Upkeep()
        self.wrote: Callable[[TableCommit], object] | None = None
        """As Writer has it."""

    @classmethod
    @contextmanager
    def on(cls, spark: SparkSession, settings: IngestSettings) -> Iterator[Engine]:
        """An engine in which schemas and tables' rules mean what they say, and writes say what the job says of them,
        whatever the settings of `spark`."""
        with own_session(spark, {**PINNED, **writing_confs(), SESSION_ZONE: settings.zone}) as own:
            engine = cls(own)
            try:
                yield engine
            finally:
                engine._upkeep.end()

    @staticmethod
    def planner(options: SourceOptions) -> StreamPlanner:
        return StreamPlanner(options, TubeCluster(options), ProgressTable(options), keeps_start=True)

    def read(self, options: SourceOptions, tasks: Sequence[ReadTask], arrival: str | None) -> RoundRead:
        """A round's ranges; `arrival` as RoundRead has it."""
        return RoundRead(self.spark, options, tasks, arrival)

    def tables(self, settings: IngestSettings, options: SourceOptions, on_event: Callable[[Event], object]) -> Tables:
        masters = options.master_servers
        if not settings.has_streams:
            table = table_at(self.spark, settings, settings.target, self._upkeep.due)
            return OneTable(self.writer(settings, options, table), settings, masters)
        rows = StreamRows(self.spark, settings, self._upkeep.due)
        return StreamTables(rows, settings, masters, lambda own, table: self.writer(own, options, table), on_event)

    def writer(self, settings: IngestSettings, options: SourceOptions, table: JobTable) -> Writer:
        identifier, bad = settings.bad_records, None
        if identifier is not None:
            of_bad = table_at(self.spark, settings, identifier, self._upkeep.due)
            bad = BadRecords(of_bad, settings.consumer_group, has_value=not settings.bad_records_without_value)
        return Writer(
            self.spark,
            settings,
            options,
            table,
            bad,
            settings.records.record_format(),
            self.wrote,
        )
