"""The job's Delta table: rows and the offsets at which they end, in one commit.

Each commit carries, in its `userMetadata`, which query wrote it, as which batch, and where the group's rows end, those
of topics that the query does not read included; so the newest one says exactly what is in the table, with or without a
checkpoint. And each carries the group's transaction id with the group's next number. Delta lets one writer through
where two have read the same number: a run that stood still, and was replaced meanwhile, cannot write any more.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from offsets_store.errors import display_uri
from tubeclient.errors import ConfigurationError
from tubeclient_cli.ingest.sink_history import Commit, SinkState, state_of
from tubeclient_cli.ingest.sink_record import SinkRecord

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["DeltaSink", "OvertakenRun"]

# How many commits are looked through for the newest of ours, first and then: maintenance may have added its own.
_HISTORY_STEPS = (20, 1_000, 100_000)

_LAST_COMMIT = "spark.databricks.delta.lastCommitVersionInSession"
"""Where Delta tells which version it has just written; it writes none where it passes over a transaction."""


class OvertakenRun(ConfigurationError):
    """Another run of the group wrote to the table while this one was at a batch."""


class _Seen(NamedTuple):
    """The version of the table that was looked at, or written, last; None for a table that is not there."""

    version: int | None
    state: SinkState


class DeltaSink:
    """The Delta table at `path`, for one consumer group; several groups may share it."""

    def __init__(self, spark: SparkSession, path: str, consumer_group: str) -> None:
        self._spark = spark
        self._path = path
        self._consumer_group = consumer_group
        self._seen: _Seen | None = None

    @property
    def where(self) -> str:
        """The table's place, for messages."""
        return display_uri(self._path)

    def look(self) -> SinkState:
        """What the newest version of the table says of the group. Reads nothing where that is known already."""
        from delta.tables import DeltaTable

        if not DeltaTable.isDeltaTable(self._spark, self._path):
            self._seen = None
            return SinkState()
        table = DeltaTable.forPath(self._spark, self._path)
        snapshot = table._jdt.table().update()
        if self._seen is None or self._seen.version != int(snapshot.version()):
            version, state = self._read(table)
            if not state.is_whole:
                state = self._completed(state, snapshot)
            self._seen = _Seen(version, state)
        return self._seen.state

    def append(self, rows: DataFrame, record: SinkRecord) -> SinkRecord:
        """Commit the rows of a batch with their record, on top of what `look` has found; the record as it was written.

        Raises OvertakenRun where another run of the group has written since.
        """
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        version, state = self._seen or _Seen(None, SinkState())
        record = replace(record, sequence=state.sequence + 1, based_on=version)
        conf = rows.sparkSession.conf
        conf.unset(_LAST_COMMIT)
        try:
            (
                rows.write.format("delta")
                .mode("append")
                .option("txnAppId", record.transaction_id)
                .option("txnVersion", record.sequence)
                .option("userMetadata", record.to_json())
                .save(self._path)
            )
        except (PySparkException, Py4JError):
            if not self._overtaken(state, record):
                raise
            raise self._overtaken_at(record) from None
        if conf.get(_LAST_COMMIT, None) == str(0 if version is None else version + 1):
            self._seen = _Seen(version=0 if version is None else version + 1, state=SinkState(record, record.sequence))
        elif self.look().record != record:
            # Delta passes over a number that is taken, and says nothing.
            raise self._overtaken_at(record)
        return record

    def _overtaken(self, before: SinkState, record: SinkRecord) -> bool:
        """Whether a write failed because another run's commit came between; False where that cannot be told."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            return self.look().record not in (before.record, record)
        except (PySparkException, Py4JError, OSError):
            return False

    def _overtaken_at(self, record: SinkRecord) -> OvertakenRun:
        other = self.look().record
        by = f"batch {other.batch_id} of query {other.query_id}" if other is not None else "a batch of its own"
        return OvertakenRun(
            f"another run of group {self._consumer_group} wrote {by} to {self.where} while this one was at batch"
            f" {record.batch_id} of query {record.query_id}, which was left out. Only one job may write a group's rows:"
            " this one ends, and the other goes on where the table ends. If it is the other that is to end, stop it and"
            " start this one again with a new checkpoint"
        )

    def _completed(self, state: SinkState, snapshot: Any) -> SinkState:
        """What the table itself keeps of a group where the history has lost it: that it wrote, and its last number."""
        kept = snapshot.transactions()
        names, iterator = [], kept.keysIterator()
        while iterator.hasNext():
            names.append(str(iterator.next()))
        own = SinkRecord.transaction_id_of(self._consumer_group)
        if own in names:
            return replace(state, sequence=max(state.sequence, int(kept.apply(own))))
        # An earlier release had one transaction for each checkpoint of the group.
        never_wrote = not any(name.startswith(f"{self._consumer_group}:") for name in names)
        return replace(state, is_whole=state.record is not None or (never_wrote and not state.is_copy))

    def _read(self, table: Any) -> _Seen:
        columns = ("version", "operation", "operationParameters", "operationMetrics", "userMetadata")
        for limit in _HISTORY_STEPS:
            rows = table.history(limit).select(*columns).collect()
            commits = [
                Commit(
                    int(row.version),
                    row.operation or "",
                    row.operationParameters or {},
                    row.operationMetrics or {},
                    SinkRecord.parse(row.userMetadata),
                )
                for row in sorted(rows, key=lambda row: int(row.version), reverse=True)
            ]
            seen = _Seen(commits[0].version if commits else None, state_of(commits, self._consumer_group))
            if seen.state.is_whole or len(commits) < limit:
                break
        return seen
