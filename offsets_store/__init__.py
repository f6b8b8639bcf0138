"""A Delta table that keeps how far consumer groups have read TubeMQ's topics.

    table = OffsetsTable("s3://lake/_offsets/tubemq", storage_options)
    run = table.open_run(GroupKey("clicks_etl", ["clicks"]), source_count=16)
    run.record([PartitionProgress(PartitionKey(1, "clicks", 0), next_offset=2800, end_offset=5600, node_id=0)])

delta-rs writes the table in milliseconds and without a SparkSession.
Any Delta reader can query who reads what, how far, and how much is behind. Older states are versions of the table.
Importing this package imports neither deltalake nor pyspark.
"""

from __future__ import annotations

import tubeclient._version  # noqa: F401 - a Python that is too old is told
from offsets_store.errors import (
    CommitConflict,
    OffsetsTableError,
    RunAlive,
    SchemaMismatch,
    SupersededRun,
)
from offsets_store.progress import GroupKey, GroupProgress, PartitionProgress, PartRead
from offsets_store.run import OffsetsRun
from offsets_store.table import OffsetsTable

__all__ = [
    "CommitConflict",
    "GroupKey",
    "GroupProgress",
    "OffsetsRun",
    "OffsetsTable",
    "OffsetsTableError",
    "PartRead",
    "PartitionProgress",
    "RunAlive",
    "SchemaMismatch",
    "SupersededRun",
]
