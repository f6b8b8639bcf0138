"""One round's rows into the target, and its bad records into their table: each record into exactly one of the two.

The bad records come first. They count once the target has the commit that they were written for; so whatever a run
leaves undone counts for nothing, and the next one reads the same ranges.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from spark_source.options.source_options import SourceOptions
from spark_source.options.table_uris import table_of_deletes
from spark_source.read.schema import arrow_types, spark_schema
from spark_source.typed.columns import ARRIVAL, BAD_REASON
from spark_source.typed.record_format import RecordFormat, or_fail, target_rows
from tubeclient.errors import ConfigurationError
from tubeclient.printable import counted as printed
from tubeclient.records.spec import CHANGES, RESCUED
from tubeclient_ingest.commits.beginning import OvertakenRun, goes_on_from
from tubeclient_ingest.commits.history import SinkState
from tubeclient_ingest.commits.record import SinkRecord
from tubeclient_ingest.rounds.bad_records import Attempt, BadRecords
from tubeclient_ingest.rounds.choice import open_files, why_spark
from tubeclient_ingest.rounds.sink import Sink
from tubeclient_ingest.rounds.upserts import DELETES_PROPERTY, KEY_PROPERTY, ROW_OPERATIONS, Upserts, check_key
from tubeclient_ingest.settings.ingest_settings import ICEBERG, TASKS, IngestSettings
from tubeclient_ingest.tables.data_files import FileDestination
from tubeclient_ingest.tables.file_statistics import without_values
from tubeclient_ingest.tables.formats import FilesTable, JobTable
from tubeclient_ingest.tables.spark_errors import bad_record, is_bad_record, is_conflict, spark_errors
from tubeclient_ingest.tables.spark_table import SparkTable
from tubeclient_ingest.tables.table_detail import GroupProperty, TableDetail
from tubeclient_ingest.tables.target_columns import TargetRules, check_columns, columns_of, lacking, widenings
from tubeclient_ingest.tasks.counting import Counted, count, persisted
from tubeclient_ingest.tasks.round_read import RoundRead, TablePart
from tubeclient_ingest.tasks.staging import Route, Routing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from spark_source.typed.decoding import Decoding

__all__ = ["TableCommit", "TooManyBadRecords", "Writer"]

_log = logging.getLogger(__name__)

TRIES: Final = 3
"""How often a round may be overtaken by retries of bad records, and how often a retry is begun."""
_UNCONFIRMED_COMMITS: Final = 100
"""For so many commits it is looked up in the target's history which bad records count."""
_WITH_NAMES: Final = ("json", "kv", *CHANGES)
"""Formats whose records name their fields."""
_MANY_ROWS: Final = 50


class TableCommit(NamedTuple):
    """A round's commit of a table."""

    name: str
    """Of the table, as the settings have it."""
    table: TableDetail
    version: int | None
    rows: int
    bad: int
    bad_table: TableDetail | None


class Unconfirmed(NamedTuple):
    """The attempts to commit for which there are bad records, and which are not confirmed."""

    state: SinkState
    """What the target says, with the runs of its commits of all these numbers."""
    rows: set[Attempt]
    there: set[Attempt]
    """Those whose commits the target has, if its history has their numbers."""


class TooManyBadRecords(ConfigurationError):
    """A round has more bad records than the user accepts; nothing of it was written."""

    condition = "TOO_MANY_BAD_RECORDS"


class Writer:
    """Writes the rounds of one run."""

    def __init__(
        self,
        spark: SparkSession,
        settings: IngestSettings,
        options: SourceOptions,
        target: JobTable,
        bad_records: BadRecords | None,
        record_format: RecordFormat,
        wrote: Callable[[TableCommit], object] | None = None,
    ) -> None:
        """`wrote` gets each round that was written."""
        self._wrote = wrote
        self._spark = spark
        self.settings = settings
        self.options = options
        self._target = target
        self.sink = Sink(
            target,
            settings.consumer_group,
            evolve=settings.evolve,
            last_elsewhere=self._last_elsewhere,
            former_elsewhere=self._former_elsewhere,
            numbers_elsewhere=self._numbers_elsewhere,
        )
        self.bad_records = bad_records
        self.record_format = record_format
        self._upserts: Upserts | None = None
        if record_format.keys:
            assert isinstance(target, SparkTable)
            deletes = SparkTable(spark, table_of_deletes(settings.target))
            how = record_format.keys, settings.consumer_group
            self._upserts = Upserts(spark, target, deletes, *how, evolve=settings.evolve)
        self.rules = TargetRules()
        self._detail: TableDetail | None = None
        self._is_first = record_format.kind in _WITH_NAMES
        """Whether records name their fields, and no row was written yet."""
        self.by_minute = False
        """Whether bad records are counted by their data time as well."""
        self._columns: StructType | None = None
        """Those that the target gets."""
        self._files: FilesTable | None = None
        """The target, if tasks write its files."""
        self._destination: FileDestination | None = None
        """Where they write them."""
        self.why_spark = ""
        """Why Spark writes its rows; empty if tasks do."""

    @property
    def detail(self) -> TableDetail:
        """The target's, once `open` was called."""
        assert self._detail is not None
        return self._detail

    def open(self, *, create: bool = True, writes: bool = True) -> None:
        """Look whether the records fit the tables, and make those that are missing, or say so without `create`. With
        `writes` the target says from now on what its rows are. Raises ConfigurationError."""
        from pyspark.sql.types import StructType

        has_reason = self.settings.bad_records is None
        source = StructType(
            [column for column in spark_schema(self.options) if has_reason or column.name != BAD_REASON]
        )
        self._columns = columns = self._target.stored(columns_of(self.record_format, source, self._spark))
        text_of_key = ",".join(self.record_format.keys)
        self.sink.use(self._target)  # a name may be another table's by now
        detail = self.sink.detail()
        if detail is None and create:
            how = self.settings
            own = GroupProperty().properties(how.consumer_group) | ({KEY_PROPERTY: text_of_key} if text_of_key else {})
            properties = {**how.table_properties, **own}
            detail = self._target.create(columns, how.partition_by, how.cluster_by, properties)
        if detail is None:
            raise ConfigurationError(f"there is no table at {self.sink.where}; start the job")
        if isinstance(self._target, SparkTable):
            check_key(self._target, detail, text_of_key)
            if writes and self.settings.evolve:
                detail = self._widened(self._target, detail, columns)
        check_columns(detail.columns, columns, self.sink.where, evolve=self.settings.evolve)
        self._detail = detail
        self.rules = TargetRules.of(detail, columns, self._spark)
        if self._upserts is not None:
            self.rules = self.rules._replace(only=ROW_OPERATIONS)
        if self.bad_records is not None:
            self.bad_records.open(create=create)
        self._choose(detail, columns, writes=writes)
        if self._upserts is not None:
            known = {KEY_PROPERTY: text_of_key, DELETES_PROPERTY: self._upserts.open(columns, detail)}
            if writes:
                there = detail.properties
                other = {name: text for name, text in known.items() if there.get(name, "").lower() != text.lower()}
                self._target.set_properties(other)
            self.sink.numbers_after = max(self._upserts.last_round(detail), self._upserts.last_number(detail))

    def _widened(self, target: SparkTable, detail: TableDetail, columns: StructType) -> TableDetail:
        """The target, with columns of the rows' types where Delta can widen its own."""
        form = self.record_format
        found = widenings(detail, columns, [*form.keys, *filter(None, [form.order_by])])
        for name, kind in found.items():
            target.widen(name, kind)
        return self.sink.detail() or detail if found else detail

    def _choose(self, detail: TableDetail, columns: StructType, *, writes: bool) -> None:
        """Look who writes the rounds, and make ready for it."""
        from pyspark.sql.types import StructType

        how = self.settings
        self._files, self.why_spark = None, why_spark(how, self.record_format, columns, self.rules)
        if not self.why_spark:
            if writes and how.evolve and lacking(detail.columns, columns):
                self._target.append(self._no_rows(), evolve=True)
                self._detail = detail = self.sink.detail() or detail
            found = open_files(how, self._target, detail, columns)
            if self.bad_records is not None and not isinstance(found, str):
                found = self.bad_records.open_log(how.storage_options) or found
            self._files, self.why_spark = (None, found) if isinstance(found, str) else (found, "")
        if self._files is not None:
            names = set(columns.names)
            self._destination = self._files.destination(
                arrow_types(StructType([column for column in detail.columns if column.name in names]))
            )
        if self.why_spark and (how.writer == TASKS or how.table_format == ICEBERG):
            setting = f"writer is {TASKS}" if how.writer == TASKS else f"table-format is {ICEBERG}"
            raise ConfigurationError(
                f"{setting}, but tasks cannot write {self.sink.where}: {self.why_spark}. Leave the setting out, or "
                "fix that"
            )
        if how.table_format == ICEBERG:
            # Snapshots that were set back may have expired since, with their numbers.
            transaction_id = SinkRecord.transaction_id_of(how.consumer_group)
            self.sink.numbers_after = self._target.last_number(transaction_id, detail)
        self.sink.use(self._files or self._target)

    def _no_rows(self) -> DataFrame:
        """With the columns that the target gets."""
        assert self._columns is not None
        return self._spark.createDataFrame([], self._columns)

    def part(self, read: RoundRead) -> DataFrame | TablePart:
        """A round for the only table of a job: rows for Spark, or files."""
        return TablePart(read, Routing(), "") if self._files is not None else read.rows(self.decoding())

    def route(self, record: SinkRecord, partitions: frozenset[str] | None = None) -> Route:
        """What tasks make of records for the commit `record`, which comes next."""
        assert self._destination is not None
        bad = None if self.bad_records is None else self.bad_records.destination(record, self.detail)
        return Route(self.record_format, record.sequence, self._destination, bad, partitions, self.by_minute)

    def decoding(self) -> Decoding | None:
        """What tasks make of a round's records as they read them, for Spark to write; None: nothing."""
        # One that the table refuses is bad too, and is kept with its bytes.
        form = self.record_format
        return None if form.kind == "raw" else form.decoding(all_values=bool(self.rules.checks))

    def _last_elsewhere(self, target: TableDetail) -> int:
        others = (self.bad_records, self._upserts)
        return max((table.last_number(target) for table in others if table is not None), default=0)

    def _numbers_elsewhere(self, table_ids: Sequence[str]) -> tuple[int, int]:
        return self.bad_records.last_numbers(table_ids, self.detail) if self.bad_records is not None else (0, 0)

    def _former_elsewhere(self, target: TableDetail) -> Mapping[str, int]:
        return self.bad_records.former(target) if self.bad_records is not None else {}

    def read_ahead(self) -> None:
        """After a round: what the next commit needs is read in the meantime."""
        if self._files is None:
            self._target.read_ahead()

    def confirm(self, state: SinkState) -> None:
        """Confirm which bad records count, as BadRecords has it, if some do not, or the first are old. `state` is what
        the target says."""
        if self.bad_records is None:
            return
        now, rows, there = self.unconfirmed(state)
        if there == rows and all(attempt.number > now.sequence - _UNCONFIRMED_COMMITS for attempt in rows):
            return
        try:
            self.bad_records.confirm({attempt for attempt in there if attempt.number <= now.sequence}, self.detail)
            self.bad_records.remove(rows - there)
        except spark_errors() as error:
            if not is_conflict(error):  # others write there: a later time will do
                raise

    def unconfirmed(self, state: SinkState) -> Unconfirmed:
        """Look which bad records are not confirmed. `state` is what the target says."""
        assert self.bad_records is not None
        rows = self.bad_records.unconfirmed(state.table_ids)
        now = self.sink.read_state(min(attempt.number for attempt in rows)) if rows else state
        # What the history no longer has is there.
        return Unconfirmed(
            now, rows, {attempt for attempt in rows if now.run_of.get(attempt.number, attempt.run_id) == attempt.run_id}
        )

    def write(
        self, rows: DataFrame | TablePart | None, record: SinkRecord, state: SinkState
    ) -> tuple[SinkState, Counted]:
        """Write a round (None: only where the group's rows end), on top of `state`. Returns what the target says then,
        and the records, counted where bad ones are kept.

        Raises TooManyBadRecords before anything is written, and what Sink.append raises. A retry of bad records
        that commits meanwhile does not matter: the round is written on top of that.
        """
        for tries in range(TRIES + 1):
            try:
                after, counted = self._write(rows, record, state)
                break
            except OvertakenRun:
                if tries == TRIES:
                    raise
                now = self.sink.read_state()
                if not goes_on_from(state, now):
                    raise
                state = now
        if self._wrote is not None and rows is not None:
            count, bad = counted.rows if counted.rows is not None else after.rows or 0, self.bad_records
            bad_table = bad.detail if bad is not None else None
            self._wrote(TableCommit(self.settings.target, self.detail, after.version, count, counted.bad, bad_table))
        return after, counted

    def commit(self, rows: DataFrame, record: SinkRecord, state: SinkState) -> tuple[SinkState, int]:
        """Write good rows. Returns what the target says then, and how many rows change nothing."""
        upserts = self._upserts
        if upserts is None:
            return self.sink.append(rows, record, state), 0
        with persisted(upserts.newest(rows)) as newest:
            found = upserts.count(newest, self.record_format.columns.names if self._is_first else ())
            if found.rows and self._is_first:
                self._is_first = False
                self._warn_of({name for name, count in found.values.items() if not count}, found.rows)
            if found.deletes:
                upserts.remember(newest, state.numbered(record), self.detail)

            def merge(numbered: SinkRecord) -> None:
                upserts.merge(newest, numbered, has_absent=found.has_absent)

            return self.sink.append(None, record, state, merge), found.others

    def _write(
        self, rows: DataFrame | TablePart | None, record: SinkRecord, state: SinkState
    ) -> tuple[SinkState, Counted]:
        table = self.bad_records
        if rows is None:
            return self.sink.append(None if self._files is not None else self._no_rows(), record, state), Counted()
        if isinstance(rows, TablePart):
            return self._write_files(rows, record, state)
        if not self.record_format.has_change:
            rows = rows.drop(ARRIVAL)
        else:
            rows = _with_arrival(rows, state.numbered(record).sequence)
        if table is None:
            if self.rules.checks:
                good = or_fail(self.rules.checked(self.record_format.parse(rows, keep=True)))
            else:
                good = self.record_format.only_good(rows)
            after, others = self.commit(good, record, state)
            return after, Counted(others=others)
        parsed = self.rules.checked(self.record_format.parse(rows))
        if state.record is None or not state.record.bad:
            # Most rounds have no bad record: they are read once.
            with contextlib.suppress(_HasBadRecords):
                return self._write_good(parsed, record, state)
        with persisted(parsed) as parsed:
            counted = count(parsed, by_minute=self.by_minute)
            record = self._with_bad(counted, record)
            if counted.bad:
                table.add(parsed, state.numbered(record), self.detail)
            after, others = self.commit(target_rows(parsed), record, state)
            return after, counted._replace(others=others)

    def _with_bad(self, counted: Counted, record: SinkRecord) -> SinkRecord:
        """The record of a round with bad records. TooManyBadRecords."""
        most = self.settings.max_bad_records
        if most is not None and counted.bad > most:
            raise TooManyBadRecords(
                f"{counted.bad:,} of {counted.total:,} records of the round are bad, but max-bad-records is {most}; "
                f"nothing of the round was written. One of them is {counted.example}. Correct the format, or raise "
                "max-bad-records, and start again"
            )
        bad = counted.bad_by_minute
        counts = tuple(minute._replace(bad=minute.bad + bad.get(minute.minute_ms, 0)) for minute in record.counts)
        return replace(record, bad=counted.bad, counts=counts)

    def _write_files(self, part: TablePart, record: SinkRecord, state: SinkState) -> tuple[SinkState, Counted]:
        """Commit what tasks wrote."""
        table, files = self.bad_records, self._files
        assert files is not None
        staged = part.stage(self.route(state.numbered(record), part.partitions))
        if staged.bad and table is None:
            raise bad_record(staged.example)
        minutes = {minute: bad for minute, (_, bad) in staged.minutes.items()}
        counted = Counted(staged.total, staged.bad, staged.example, minutes, rows=staged.rows)
        record = self._with_bad(counted, record)
        if staged.rows and self._is_first:
            self._is_first = False
            self._warn_of(without_values(file.stats for file in staged.files), staged.rows)
        if staged.bad and table is not None:
            table.add_files(staged.bad_files)
        return self.sink.append(None, record, state, partial(files.commit, staged.files)), counted

    def _warn_of(self, none: Collection[str], rows: int) -> None:
        """Warn of columns of the schema in which `none` of the first rows has a value: a misspelt name has none."""
        columns = [name for name in self.record_format.columns.names if name != RESCUED]
        names = [name for name in columns if name in none]
        if names and (rows >= _MANY_ROWS or len(names) == len(columns)):
            _log.warning(
                "none of the first %s has a value for %s, so %s null in %s. If that is wrong, correct the schema: "
                "its names must match the records' names, including case",
                *(printed(rows, "record"), ", ".join(names), "they are" if len(names) > 1 else "it is"),
                self.sink.where,
            )

    def _write_good(self, parsed: DataFrame, record: SinkRecord, state: SinkState) -> tuple[SinkState, Counted]:
        """Write a round without bad records. _HasBadRecords: there is one, and nothing was written."""
        try:
            after, others = self.commit(or_fail(parsed), record, state)
        except spark_errors() as error:
            if is_bad_record(error):
                raise _HasBadRecords from None
            raise
        return after, Counted(others=others)


class _HasBadRecords(Exception):
    """A round that was to be written as if it had none."""


def _with_arrival(rows: DataFrame, number: int) -> DataFrame:
    """Rows whose `ARRIVAL` is their place in the round, with all of it: from round to round the number rises."""
    from pyspark.sql import functions as F

    return rows.withColumn(ARRIVAL, F.struct(F.lit(number).cast("long").alias("round"), F.col(ARRIVAL).alias("place")))
