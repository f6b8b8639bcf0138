"""The job's rounds of before, by the history of the table that says where the job continues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from tubeclient.keys import PartitionKey
from tubeclient_ingest.commits.history import Commit, state_of
from tubeclient_ingest.commits.record import SinkRecord
from tubeclient_ingest.settings.group_settings import target_of
from tubeclient_ingest.settings.ingest_settings import IngestSettings
from tubeclient_ingest.settings.table_by import COUNTS
from tubeclient_ingest.tables.formats import JobTable, table_at
from tubeclient_ingest.tables.spark_table import SparkTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["PastRound", "PastRounds"]

_ROWS: Final = ("numSourceRows", "numOutputRows")
"""Delta's metrics, as `state_of` reads them."""


class PastRound(NamedTuple):
    """A commit of the job, in Delta's words. With many tables it is one of the counts table, and the rows are those of
    all tables."""

    version: int
    timestamp: datetime | None
    sequence: int
    """The group's number of the commit."""
    rows: int | None
    """Written to the target; None if the history does not say."""
    bad_rows: int
    """Beside `rows`: bad records."""
    is_retry: bool
    """Whether it is no round, but moved bad records to the target."""
    is_undone: bool
    """Whether RESTORE took it out."""
    end_offsets: Mapping[PartitionKey, int]
    """Where the group's rows end after it."""


class PastRounds:
    """Those of one job."""

    def __init__(self, spark: SparkSession, settings: IngestSettings) -> None:
        self._settings = settings
        place = target_of(settings, COUNTS) if settings.has_streams else settings.target
        self._table: JobTable = table_at(spark, settings, place)
        self._log = self._table.log if isinstance(self._table, SparkTable) else None
        self._added: dict[tuple[int, str], int | None] = {}
        """The rows of commits, by their versions and runs, where only the files say them."""

    def newest(self, limit: int) -> list[PastRound]:
        """Those among the last `limit` commits of the table, newest first. Raises Spark's errors, ConfigurationError,
        LogError."""
        if self._log is not None and self._log.refresh() is not None:
            commits: Sequence[Commit] = [entry.commit for entry in self._log.commits(limit)]
        else:
            commits = self._table.history(limit)
        group = self._settings.consumer_group
        last = state_of(commits, group).record
        there = () if last is None else last.committed_numbers
        own = [(commit, commit.record) for commit in commits if commit.record and commit.record.consumer_group == group]
        counts = self._counts([record for _, record in own]) if self._settings.has_streams and own else None
        return [
            PastRound(
                commit.version,
                commit.written,
                record.sequence,
                self._rows_of(commit, record) if counts is None else counts.get(record.sequence, (0, 0))[0],
                0 if record.is_retry else record.bad if counts is None else counts.get(record.sequence, (0, 0))[1],
                record.is_retry,
                not any(first <= record.sequence <= end for first, end in there),
                record.ends,
            )
            for commit, record in own
        ]

    def _rows_of(self, commit: Commit, record: SinkRecord) -> int | None:
        """How many rows a commit added; None if nothing says it. Those of tasks' files have no metrics."""
        if (stated := next(filter(None, map(commit.metrics.get, _ROWS)), None)) is not None:
            return int(stated)
        if self._log is None or self._log.handle is None:
            return None
        key = commit.version, record.run_id
        if key not in self._added:
            self._added[key] = self._log.added_rows(commit.version)
        return self._added[key]

    def _counts(self, records: Sequence[SinkRecord]) -> dict[int, tuple[int, int]]:
        """Rows and bad records by the numbers of these commits."""
        from pyspark.sql import functions as F

        self._table.detail()
        rows = self._table.rows(f"sequence >= {min(record.sequence for record in records)}")
        found = rows.groupBy("sequence", "runId").agg(F.sum("written"), F.sum("bad")).collect()
        own = {(record.sequence, record.run_id) for record in records}
        return {sequence: (written, bad) for sequence, run, written, bad in found if (sequence, run) in own}
