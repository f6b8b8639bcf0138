"""The job's Delta table: rows and the offsets at which they end, in one commit.

Each commit carries, in its `userMetadata`, which query wrote it, as which batch, and where the batch ends; so whoever
finds the table knows exactly what is in it, with or without a checkpoint. And each carries a transaction id of the
query: a batch that Spark repeats is skipped. The id holds the checkpoint's identity, as every checkpoint counts its
batches from 0.
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

__all__ = ["DeltaSink", "RowsWouldRepeat", "SinkRecord", "refuse_repetition"]

_FIELD = "tubeclient"

# How many commits are looked through for the newest of ours, first and then: maintenance may have added its own.
_HISTORY_STEPS = (20, 1_000, 100_000)


class RowsWouldRepeat(ConfigurationError):
    """The batch holds rows that the table has already, from another checkpoint."""


@dataclass(frozen=True, slots=True)
class SinkRecord:
    """What one commit of the job says about itself."""

    consumer_group: str
    query_id: str
    """The identity of Spark's checkpoint."""
    batch_id: int
    ends: Offsets
    """Everything before these offsets is in the table."""

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
        """What the group's newest commit says; None if the table has none, or does not exist."""
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
        return None

    def append(self, rows: DataFrame, record: SinkRecord) -> None:
        """Commit the rows of a batch and its record; nothing happens if this very batch was committed before."""
        (
            rows.write.format("delta")
            .mode("append")
            .option("txnAppId", f"{record.consumer_group}:{record.query_id}")
            .option("txnVersion", record.batch_id)
            .option("userMetadata", record.to_json())
            .save(self._path)
        )


def refuse_repetition(
    newest: SinkRecord | None, query_id: str, start: Mapping[PartitionKey, int], end: Mapping[PartitionKey, int]
) -> None:
    """Raise RowsWouldRepeat if a batch from `start` to `end` of query `query_id` has rows that the table holds.

    That is what an old checkpoint leads to, taken up again after a newer one went on from the table. Where the newest
    commit is of this very query, Delta's transaction ids see to it.
    """
    if newest is None or newest.query_id == query_id:
        return
    behind = [p for p, held in newest.ends.items() if start.get(p, held) < held or end.get(p, held) < held]
    if behind:
        first = behind[0]
        raise RowsWouldRepeat(
            f"this checkpoint (query {query_id}) stands before what query {newest.query_id} wrote to the table since,"
            f" in {len(behind)} partitions: {first} would be read from {start.get(first)} to {end.get(first)}, and the"
            f" table ends at {newest.ends[first]}. Start with a new checkpoint: it goes on where the table ends"
        )
