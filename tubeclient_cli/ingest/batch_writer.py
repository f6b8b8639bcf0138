"""One batch into the target, and its bad records into the dead-letter table: each record into exactly one of the two.

The target's commit decides. The bad records are staged before it, and it names their folder. After it they are
published. So whatever a run leaves undone, the next one sees in the target's newest commit, and does it first.
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from spark_source.options.given import parse_options
from spark_source.typed.record_format import BAD_REASON, LINEAGE, RecordFormat, or_fail, target_rows
from tubeclient.errors import ConfigurationError
from tubeclient_cli.ingest.bad_share import BadShare, TooManyBadRecords
from tubeclient_cli.ingest.dead_letters import LETTER_ID, DeadLetters, MissingDeadLetters
from tubeclient_cli.ingest.settings import TARGET, IngestSettings
from tubeclient_cli.ingest.sink import DeltaSink, OvertakenRun
from tubeclient_cli.ingest.sink_history import SinkState
from tubeclient_cli.ingest.sink_record import SinkRecord
from tubeclient_cli.ingest.staged import StagedBad, folder_name, numbers, orphans, owner_mark
from tubeclient_cli.ingest.target_columns import check_columns, columns_of
from tubeclient_cli.ingest.target_rules import TargetRules

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["BatchWriter", "Retried"]

_TRIES = 3
"""How often a batch may be overtaken by retries of bad records, and how often a retry is begun."""

_log = logging.getLogger(__name__)


class _Counted(NamedTuple):
    total: int
    bad: int
    example: str
    """A bad record's place and reason; empty if there is none."""


class Retried(NamedTuple):
    """What a retry did, or would do."""

    moved: int
    """How many bad records are in the target now, or would be."""
    still_bad: int
    """How many of the chosen ones cannot be parsed."""
    unread: int = 0
    """How many of the chosen ones were not tried, because the source itself could not read their messages."""


class BatchWriter:
    """Writes the batches of one run."""

    def __init__(
        self, spark: SparkSession, settings: IngestSettings, sink: DeltaSink, record_format: RecordFormat
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._sink = sink
        self._format = record_format
        self._rules = TargetRules()
        self._letters: DeadLetters | None = None
        self._share: BadShare | None = settings.bad_share
        self._settled: tuple[SinkRecord | None, SinkRecord | None] = (None, None)
        self._bad: dict[int, int] = {}

    def bad_of(self, batch_id: int) -> int:
        """How many bad records the batch had; 0 for one that this run did not write."""
        return self._bad.get(batch_id, 0)

    def open(self, *, create: bool = True) -> None:
        """Read the target's rules, and create the dead-letter table if it is missing, or say so without `create`.
        Raises ConfigurationError."""
        self._rules = self._sink.rules()
        if self._settings.bad_records is None:
            return
        self._letters = self._table(self._settings.bad_records)
        if not create and not self._letters.exists():
            raise ConfigurationError(f"there is no dead-letter table at {self._letters.where}; check bad-records")
        if create:
            self._letters.create()
        else:
            self._letters.check()

    def settle(self, state: SinkState) -> None:
        """Finish what other runs left undone, as `state` says: the target's, as it was read.

        It publishes the newest commit's bad records, tells the dead-letter tables of batches that RESTORE undid, and
        removes folders that nobody will publish. Raises MissingDeadLetters.
        """
        newest = state.newest
        if newest is None:
            self._check_forgotten(state)
            return
        # Two RESTOREs may lead to where the table was; runs that looked between them are then behind.
        if (newest, state.record) == self._settled and not state.is_restored:
            return
        tables = self._tables(state)
        target_id = self._sink.table_id() if tables else None
        if target_id is not None:
            if newest.bad is not None and newest.bad.folder is not None:
                self._publish_pending(newest, newest.bad, target_id, tables, undone=newest is not state.record)
            for table in tables:
                table.mark(state, target_id)
                self._sweep(table, target_id, state.sequence)
        self._settled = (newest, state.record)

    def write(self, rows: DataFrame, record: SinkRecord, before: SinkState) -> None:
        """Write a batch, on top of `before`; `settle` was called with the same state of the target.

        Raises TooManyBadRecords before anything is written, and what DeltaSink.append raises. A retry of bad records
        that commits meanwhile does not matter: the batch is written on top of that.
        """
        for _ in range(_TRIES):
            try:
                return self._write(rows, record, before)
            except OvertakenRun:
                now = self._sink.look()
                if not _is_before_retries(before, now):
                    raise
                self.settle(now)
                before = now
        return self._write(rows, record, before)

    def retry(self, reason: str | None, *, dry_run: bool = False) -> Retried:
        """Move the bad records that can be parsed by now to the target; `reason` is a part of their reason.

        It is a commit of the group like a batch's, which leaves the offsets where they are. With `dry_run` it counts
        the records of the table as it is, and writes nothing. Raises ConfigurationError.
        """
        for _ in range(_TRIES):
            with contextlib.suppress(OvertakenRun):
                return self._retry(reason, dry_run=dry_run)
        raise ConfigurationError(
            f"other runs of group {self._settings.consumer_group} wrote to {self._sink.where} in each of {_TRIES}"
            " tries; nothing was moved. Try again, or stop the job meanwhile"
        )

    def _retry(self, reason: str | None, *, dry_run: bool) -> Retried:
        letters, state = self._letters, self._sink.look()
        target_id = self._sink.table_id()
        if letters is None or target_id is None or state.record is None:
            if not state.is_whole:
                raise ConfigurationError(
                    f"Delta's history of {self._sink.where} no longer has a commit of group"
                    f" {self._settings.consumer_group}. Let the job write a batch first"
                )
            raise ConfigurationError(
                f"{self._sink.where} has no commit of group {self._settings.consumer_group}, so no record of it is bad"
            )
        if state.undone is not None:
            # The next commit would be the newest one, and hide from a new checkpoint what RESTORE took out.
            raise ConfigurationError(
                f"RESTORE took commits of group {self._settings.consumer_group} out of {self._sink.where}. Let the job"
                " write a batch first, which reads them again"
            )
        if state.taken_out is not None:
            raise ConfigurationError(
                f"version {state.taken_out.version} of {self._sink.where} ({state.taken_out.operation})"
                f" {state.taken_out.how.value}. Let the job write a batch first"
            )
        if not dry_run:
            self.settle(state)
        options = parse_options(self._settings.options("earliest"))
        chosen = letters.letters(target_id, options, reason)
        check_columns(
            self._rules.columns,
            columns_of(self._format, chosen.drop(LETTER_ID)),
            self._sink.where,
            evolve=self._settings.evolve,
        )
        unread = letters.letters(target_id, options, reason, unread=True).count()
        parsed = self._rules.checked(self._format.parse(chosen)).persist()
        try:
            counted = _count(parsed)
            good = counted.total - counted.bad
            if good and not dry_run:
                folder = self._new_folder(state)
                letters.stage_retried(parsed, folder)
                bad = replace(_naming(letters.location, *state.bad_tables), folder=folder, count=good, retried=True)
                rows = target_rows(parsed)
                if LINEAGE in rows.columns:
                    rows = rows.withColumn(LINEAGE, rows[LINEAGE].dropFields(LETTER_ID))
                rows = rows.drop(LETTER_ID)
                self._finish(self._sink.append(rows, replace(state.record, bad=bad)), bad, letters)
        finally:
            parsed.unpersist()
        return Retried(good, counted.bad, unread)

    def _write(self, rows: DataFrame, record: SinkRecord, before: SinkState) -> None:
        letters = self._letters
        if letters is None:
            known = _naming(*before.bad_tables) if before.bad_tables else None
            if self._rules.checks:
                good = or_fail(self._rules.checked(self._format.parse(rows, keep=True)))
            else:
                good = self._format.only_good(rows)
            self._sink.append(good, replace(record, bad=known))
            return
        parsed = self._rules.checked(self._format.parse(rows)).persist()
        try:
            counted = _count(parsed)
            self._check_share(counted, record)
            bad = _naming(letters.location, *before.bad_tables)
            if counted.bad:
                folder = self._new_folder(before)
                letters.stage(parsed, folder)
                bad = replace(bad, folder=folder, count=counted.bad)
            written = self._sink.append(target_rows(parsed), replace(record, bad=bad))
        finally:
            parsed.unpersist()
        self._finish(written, bad, letters)
        self._bad[record.batch_id] = counted.bad

    def _finish(self, written: SinkRecord, bad: StagedBad, letters: DeadLetters) -> None:
        """Publish what the commit `written` staged."""
        target_id = self._sink.table_id()
        if bad.folder is not None and target_id is not None:
            letters.publish(written, bad, target_id)
            letters.remove(bad.folder)
        self._settled = (written, written)

    def _new_folder(self, before: SinkState) -> str:
        mark = self._marks(self._sink.table_id())[0]
        return folder_name(mark, before.sequence + 1, uuid.uuid4().hex)

    def _check_share(self, counted: _Counted, record: SinkRecord) -> None:
        if self._share is not None and not self._share.allows(counted.bad, counted.total):
            most = self._settings.named("max_bad_records")
            raise TooManyBadRecords(
                f"{counted.bad:,} of {counted.total:,} records of batch {record.batch_id} are bad, and {most}"
                f" is {self._share.text}; nothing of the batch was written. One of them is {counted.example}. Correct"
                f" the format, or raise {most}, and start again"
            )

    def _publish_pending(
        self, newest: SinkRecord, bad: StagedBad, target_id: str, tables: list[DeadLetters], *, undone: bool
    ) -> None:
        if any(table.published(target_id) >= newest.sequence for table in tables):
            return
        for table in tables:
            if bad.folder is not None and table.has_staged(bad.folder):
                table.create()
                table.publish(newest, bad, target_id, undone=undone)
                return
        text, way_out = _missing_ids(newest, bad) if bad.retried else _missing_rows(newest, bad)
        text = f"{self._sink.where}: {text}"
        if undone:
            _log.warning("%s; RESTORE undid that commit", text)
            return
        if self._settings.starting_offsets != TARGET:
            place = self._settings.named("bad_records")
            raise MissingDeadLetters(
                f"{text}. If the table was moved, give its new place with {place}. Otherwise {way_out}"
            )
        _log.warning(
            "%s; this run goes on all the same, as %s %s says", text, self._settings.named("starting_offsets"), TARGET
        )

    def _check_forgotten(self, state: SinkState) -> None:
        """Raise MissingDeadLetters if the group's newest commit, which the target's history no longer has, may have
        staged what is not published."""
        letters, number = self._letters, state.sequence
        if letters is None or not number:
            return
        target_id = self._sink.table_id()
        if target_id is None or letters.published(target_id) >= number:
            return
        left = [one for one, of in numbers(letters.staged(), self._marks(target_id)).items() if of == number]
        if left:
            raise MissingDeadLetters(
                f"Delta's history of {self._sink.where} no longer has commit {number} of group"
                f" {self._settings.consumer_group}, which may be what the folder {left[0]} in _staged of"
                f" {letters.where} is for: bad records that are in no table, or ids of records that a retry moved. Read"
                " the folder's Parquet files and see what of it the target lacks; then move the folder to another"
                " place, and start again"
            )

    def _sweep(self, table: DeadLetters, target_id: str, newest: int) -> None:
        for folder in orphans(table.staged(), self._marks(target_id), newest):
            table.remove(folder)

    def _marks(self, target_id: str | None) -> list[str]:
        """The marks of the target's folders, that for new ones first."""
        names = [self._settings.target] if target_id is None else [target_id, self._settings.target]
        return [owner_mark(self._settings.consumer_group, name) for name in names]

    def _tables(self, state: SinkState) -> list[DeadLetters]:
        """The dead-letter tables that may have something left to do: this run's, the newest commit's, and after a
        RESTORE each that the group has had."""
        tables = [] if self._letters is None else [self._letters]
        named = state.bad_tables if state.is_restored else state.bad_tables[:1]
        return [*tables, *(self._table(name) for name in named if name not in {one.location for one in tables})]

    def _table(self, path: str) -> DeadLetters:
        return DeadLetters(self._spark, path, self._settings.consumer_group)


def _naming(*tables: str) -> StagedBad:
    """What a commit without bad records says, so that later runs know all tables of the group."""
    first, *others = dict.fromkeys(tables)
    return StagedBad(first, earlier_tables=tuple(others))


def _missing_rows(newest: SinkRecord, bad: StagedBad) -> tuple[str, str]:
    """What is wrong if a batch's staged folder is gone, and what to do."""
    return (
        f"batch {newest.batch_id} of query {newest.query_id} had {bad.count:,} bad records, which are neither in the"
        f" dead-letter table nor in the folder where they were staged, {bad.folder} in _staged of {bad.table}",
        "either RESTORE the target to the version before that batch and start with a new checkpoint, which reads them"
        f" again; or go on without them with --starting-offsets {TARGET}",
    )


def _missing_ids(newest: SinkRecord, bad: StagedBad) -> tuple[str, str]:
    """The same for a retry's."""
    return (
        f"a retry moved {bad.count:,} bad records to the target, and the dead-letter table does not say which: the"
        f" folder with their ids, {bad.folder} in _staged of {bad.table}, is gone",
        f"RESTORE the target to version {newest.based_on}, start the job, and retry again; or delete the records that"
        " the target has (columns partitionKey, messageId and recordIndex) from the dead-letter table, and start the"
        f" job with --starting-offsets {TARGET}",
    )


def _is_before_retries(before: SinkState, now: SinkState) -> bool:
    """Whether only retries of bad records came after `before`: they leave query, batch and offsets as they are."""
    one, other = before.record, now.record
    if one is None or other is None or other.bad is None or not other.bad.retried or now.taken_out or now.undone:
        return False
    return (one.query_id, one.batch_id, one.ends) == (other.query_id, other.batch_id, other.ends)


def _count(parsed: DataFrame) -> _Counted:
    """Count a parsed batch in one pass, which also computes what is persisted."""
    from pyspark.sql import functions as F

    reason = F.col(BAD_REASON)
    place = F.struct("topic", "partitionKey", "messageId", BAD_REASON)
    row = parsed.agg(F.count("*"), F.count(reason), F.min(F.when(reason.isNotNull(), place))).collect()[0]
    total, bad, first = int(row[0]), int(row[1]), row[2]
    if first is None:
        return _Counted(total, bad, "")
    return _Counted(total, bad, f"message {first.messageId} of partition {first.partitionKey}: {first.badReason}")
