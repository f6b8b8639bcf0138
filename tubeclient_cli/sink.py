"""The job's Delta table: rows and the offsets at which they end, in one commit.

Each commit carries, in its `userMetadata`, which query wrote it, as which batch, and where the group's rows end, those
of topics that the query does not read included; so the newest one says exactly what is in the table, with or without a
checkpoint. And each carries a transaction id of the query: a batch that Spark repeats is skipped. The id holds the
checkpoint's identity, as every checkpoint counts its batches from 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_source.offsets import Offsets
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["DeltaSink", "RowsWouldRepeat", "SinkRecord", "UnknownRows", "check_batch"]

_FIELD = "tubeclient"

# How many commits are looked through for the newest of ours, first and then: maintenance may have added its own.
_HISTORY_STEPS = (20, 1_000, 100_000)


class RowsWouldRepeat(ConfigurationError):
    """The batch does not fit to what the table has: rows would be there twice, or be left out."""


class UnknownRows(ConfigurationError):
    """The table's history does not reach back to its beginning, so nobody can say which rows of the group it has."""


@dataclass(frozen=True, slots=True)
class SinkRecord:
    """What one commit of the job says about itself."""

    consumer_group: str
    query_id: str
    """The identity of Spark's checkpoint."""
    batch_id: int
    ends: Offsets
    """Everything before these offsets is in the table, from all topics that the group has ever written to it."""

    @property
    def transaction_id(self) -> str:
        """The `txnAppId` of the commit, whose `txnVersion` is the batch's number: Delta skips, in silence, a version
        that is not above the last one of the same id. Every checkpoint counts from 0, so each has an id of its own.
        """
        return f"{self.consumer_group}:{self.query_id}"

    def to_json(self) -> str:
        """The commit's userMetadata."""
        return json.dumps(
            {
                _FIELD: {
                    "consumerGroup": self.consumer_group,
                    "queryId": self.query_id,
                    "batchId": self.batch_id,
                    "endOffsets": self.ends.to_dict(),
                }
            }
        )

    @classmethod
    def parse(cls, text: str | None) -> SinkRecord | None:
        """Read a commit's userMetadata; None if it is not of this job's making."""
        try:
            document = json.loads(text or "")
        except ValueError:
            return None
        record = document.get(_FIELD) if isinstance(document, Mapping) else None
        if not isinstance(record, Mapping):
            return None
        return cls(
            str(record["consumerGroup"]),
            str(record["queryId"]),
            int(record["batchId"]),
            Offsets.from_dict(record["endOffsets"]),
        )


class DeltaSink:
    """The Delta table at `path`, for one consumer group; several groups may share it."""

    def __init__(self, spark: SparkSession, path: str, consumer_group: str) -> None:
        self._spark = spark
        self._path = path
        self._consumer_group = consumer_group

    def newest_record(self) -> SinkRecord | None:
        """What the group's newest commit says; None if the table has none, or does not exist.

        UnknownRows where none is found and the history is cut: Delta removes it after `delta.logRetentionDuration`.
        """
        from delta.tables import DeltaTable

        if not DeltaTable.isDeltaTable(self._spark, self._path):
            return None
        table = DeltaTable.forPath(self._spark, self._path)
        for limit in _HISTORY_STEPS:
            commits = table.history(limit).select("version", "userMetadata").collect()
            for commit in sorted(commits, key=lambda row: int(row.version), reverse=True):
                record = SinkRecord.parse(commit.userMetadata)
                if record is not None and record.consumer_group == self._consumer_group:
                    return record
            if len(commits) < limit:
                break
        oldest = min((int(row.version) for row in commits), default=0)
        if oldest > 0:
            raise UnknownRows(
                f"the history of {self._path} goes back to version {oldest} only and "
                f"knows no commit of group {self._consumer_group}, which may have written before that. Say where to "
                "start with --starting-offsets: earliest if the group has no rows in the table"
            )
        return None

    def append(self, rows: DataFrame, record: SinkRecord) -> None:
        """Commit the rows of a batch and its record; nothing happens if this very batch was committed before."""
        (
            rows.write.format("delta")
            .mode("append")
            .option("txnAppId", record.transaction_id)
            .option("txnVersion", record.batch_id)
            .option("userMetadata", record.to_json())
            .save(self._path)
        )


def check_batch(
    newest: SinkRecord | None,
    query_id: str,
    batch_id: int,
    start: Mapping[PartitionKey, int],
    end: Mapping[PartitionKey, int],
) -> None:
    """Raise RowsWouldRepeat unless batch `batch_id` of query `query_id`, from `start` to `end`, goes on where the table
    ends, or is in the table and will be skipped by Delta's transaction id.

    Other batches come of an old checkpoint that is taken up again after a newer one went on from the table, and of one
    that was put back to an earlier state.
    """
    if newest is None:
        return
    held = newest.ends
    if newest.query_id == query_id and batch_id <= newest.batch_id:
        beyond = [p for p, at in end.items() if at > held.get(p, -1)]
        if beyond:
            first = min(beyond)
            raise RowsWouldRepeat(
                f"batch {batch_id} of this checkpoint (query {query_id}) is in the table already, as another one: it"
                f" would end at {end[first]} in {first}, and the table ends at {held.get(first)}. The checkpoint was"
                " put back to an earlier state. Start with a new checkpoint: it goes on where the table ends"
            )
        return
    # A partition that only `end` has enters there, and is read from the next batch on.
    behind = {p for p, at in held.items() if start.get(p, end.get(p, at)) < at}
    if newest.query_id != query_id:
        # Where batch 0 of an older run began is not known for certain; it ends before the table if it is too old.
        behind |= {p for p, at in held.items() if end.get(p, at) < at}
    if behind:
        first = min(behind)
        raise RowsWouldRepeat(
            f"this checkpoint (query {query_id}) stands before what query {newest.query_id} wrote to the table since,"
            f" in {len(behind)} partitions: {first} would be read from {start.get(first)} to {end.get(first)}, and the"
            f" table ends at {held[first]}. Start with a new checkpoint: it goes on where the table ends"
        )
