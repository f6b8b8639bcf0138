"""The job's Delta table: rows and the offsets at which they end, in one commit.

The `userMetadata` of each commit names the query, the batch, and where the group's rows end in all topics, also those
that the query does not read. So the newest commit says exactly what is in the table, with or without a checkpoint. Each
commit also carries the group's transaction id with the group's next number. If two writers use the same number, Delta
accepts one: a run that hung and was replaced meanwhile can no longer write.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

from offsets_store.delta_spark import is_conflict
from offsets_store.errors import display_uri
from tubeclient.errors import ConfigurationError
from tubeclient_cli.ingest.sink_check import unknown_rows
from tubeclient_cli.ingest.sink_history import Harm, SinkState, state_of
from tubeclient_cli.ingest.sink_record import SinkRecord
from tubeclient_cli.ingest.target_rules import TargetRules
from tubeclient_cli.ingest.target_table import SparkTargetTable, TargetTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["DeltaSink", "OvertakenRun"]

# How many commits to look through for our newest one, step by step: maintenance may have added its own.
_HISTORY_STEPS = (20, 1_000, 100_000)

_TRIES = 10
"""How often to look at a table, or to commit to it, that others change meanwhile."""


class OvertakenRun(ConfigurationError):
    """Another run of the group wrote to the table during this run's batch."""

    condition = "TARGET_TAKEN_OVER"


class DeltaSink:
    """The Delta table at `path`, for one consumer group; several groups may share it. With `evolve` it gains
    columns that it lacks. `table` replaces Spark's way to the table."""

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        consumer_group: str,
        *,
        evolve: bool = False,
        table: TargetTable | None = None,
    ) -> None:
        self._evolve = evolve
        self._path = path
        self._consumer_group = consumer_group
        self._table = table or SparkTargetTable(spark, path)
        self._seen: SinkState | None = None
        """The state of the version that was read or written last; None if there is no table."""

    @property
    def where(self) -> str:
        """The table's path, for messages."""
        return display_uri(self._path)

    def rules(self) -> TargetRules:
        """The table's columns, and what it refuses."""
        return self._table.rules()

    def look(self) -> SinkState:
        """What the newest version of the table says about the group. Reads nothing if that version is known."""
        newest = self._table.newest()
        if newest is None:
            self._seen = None
            return SinkState()
        if self._seen is None or (self._seen.table_id, self._seen.version) != newest:
            self._seen = self._read_whole(newest.table_id)
        return self._seen

    def table_id(self) -> str | None:
        """The id that Delta gave the table; None if there is no table."""
        newest = self._table.newest()
        return None if newest is None else newest.table_id

    def append(self, rows: DataFrame, record: SinkRecord) -> SinkRecord:
        """Commit a batch's rows with their record, on top of the version that `look` read. Returns the record as
        written.

        After others' DDL it is tried again. Raises OvertakenRun if another run of the group has written since, and
        UnknownRows if the batch was written all the same, because the table forgot the other run's transaction.
        """
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        state = self._seen or SinkState()
        for left in reversed(range(_TRIES)):
            record = state.numbered(record)
            next_version = 0 if state.version is None else state.version + 1
            try:
                written = self._table.append(rows, record, evolve=self._evolve)
                break
            except (PySparkException, Py4JError) as error:
                with contextlib.suppress(PySparkException, Py4JError, OSError):
                    self.look()
                now = self._seen or SinkState()
                if now.record not in (state.record, record):
                    raise self._overtaken_at(record) from None
                if left == 0 or now != state or not is_conflict(error):
                    raise
                state = now
        if written == next_version:
            self._seen = SinkState(record, record.sequence, version=next_version, table_id=state.table_id)
            return record
        after = self.look()
        if after.record != record:
            # Delta silently skips a number that is taken.
            raise self._overtaken_at(record)
        if after.taken_out is not None and after.taken_out.how is Harm.BESIDE:
            raise unknown_rows(after.taken_out, self.where, self._consumer_group)
        return record

    def _overtaken_at(self, record: SinkRecord) -> OvertakenRun:
        other = self.look().record
        by = f"batch {other.batch_id} of query {other.query_id}" if other is not None else "a batch of its own"
        return OvertakenRun(
            f"another run of group {self._consumer_group} wrote {by} to {self.where} while this one was at batch"
            f" {record.batch_id} of query {record.query_id}, which was not written. Only one job may write a group's"
            " rows: this one ends, and the other continues. To keep this one instead, stop the other and start this one"
            " again with a new checkpoint"
        )

    def _read_whole(self, table_id: str) -> SinkState:
        for _ in range(_TRIES):
            state = self._read(table_id)
            if state.is_whole:
                return state
            whole = self._completed(state)
            # A commit of the group between the two looks would have a number, and no record: it would count as undone.
            if self._table.newest() == (state.table_id, state.version):
                return whole
        raise ConfigurationError(
            f"{self.where} changed between two looks at it, {_TRIES} times in turn, and its history no longer has a"
            f" commit of group {self._consumer_group}. Let other writers of the table rest for a moment"
        )

    def _completed(self, state: SinkState) -> SinkState:
        """Complete `state` from the table itself where the history is cut: whether the group wrote, and its last
        number."""
        kept = self._table.transactions(SinkRecord.transaction_id_of(self._consumer_group))
        if kept.last is not None:
            return replace(state, sequence=max(state.sequence, kept.last))
        return replace(state, is_whole=state.record is not None or not (state.is_copy or kept.may_forget))

    def _read(self, table_id: str) -> SinkState:
        for limit in _HISTORY_STEPS:
            commits = self._table.history(limit)
            state = state_of(commits, self._consumer_group, table_id)
            if state.is_whole or len(commits) < limit:
                break
        if state.taken_out is not None and state.record is not None:
            # By their names and metrics they may have removed rows; the log knows.
            since = -1 if state.record.based_on is None else state.record.based_on
            doubtful = [one.version for one in commits if one.removes and one.record is None and one.version > since]
            removing = self._table.removing(doubtful) if doubtful else set()
            commits = [one._replace(removes=one.version in removing) for one in commits]
            state = state_of(commits, self._consumer_group, table_id)
        return state
