"""A cluster with one topic, and the ingest job that reads it into a Delta table."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from embedded_tubemq import EmbeddedTubeMQ
from embedded_tubemq.storage.store import NewMessage
from offsets_store import OffsetsTable
from tubeclient.keys import PartitionKey
from tubeclient_cli.ingest.job import IngestSettings, run_ingest
from tubeclient_cli.ingest.progress import BatchEvent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["KEYS", "Bench"]

KEYS = [PartitionKey(1, "clicks", 0), PartitionKey(1, "clicks", 10_000)]


class Bench:
    """A cluster with one topic of two stores, and a job that reads it."""

    def __init__(self, tube: EmbeddedTubeMQ, spark: SparkSession, folder: Path) -> None:
        self.tube = tube
        self.spark = spark
        self.folder = folder
        self.sent = 0
        self.said: list[str] = []
        """Where each run said that it begins."""
        self.settings = IngestSettings(
            master_servers=tube.master_address,
            consumer_group="clicks_etl",
            topics=("clicks",),
            target=str(folder / "table"),
            checkpoint=str(folder / "checkpoint"),
            offsets_table=str(folder / "offsets"),
            source_count=2,
            source_options={"masterWebPort": str(tube.master_web_port)},
        )

    def send(self, count: int, *, broker_id: int = 1) -> None:
        """Append so many numbered messages, half to each store."""
        numbers = range(self.sent, self.sent + count)
        self.sent += count
        self.tube.load("clicks", [NewMessage(10_000 * (n % 2), str(n).encode()) for n in numbers], broker_id=broker_id)

    def run(self, checkpoint: str = "checkpoint", **changes: Any) -> list[BatchEvent]:
        """Run the job until it has read what there is; returns its batches."""
        events: list[BatchEvent] = []
        settings = replace(self.settings, checkpoint=str(self.folder / checkpoint), **changes)
        summary = run_ingest(self.spark, settings, events.append, on_start=self.said.append)
        assert (summary.batches, summary.rows) == (len(events), sum(event.rows for event in events))
        assert not summary.stopped
        return events

    def repeated_or_missing(self) -> dict[int, int]:
        """Message numbers that are not in the table exactly once; {} is what it should be."""
        table = QueryBuilder().register("rows", DeltaTable(self.settings.target))
        found = pa.table(table.execute('SELECT "value" FROM rows').read_all())
        counts = Counter(map(int, found.column("value").to_pylist()))
        return {n: counts[n] for n in {*range(self.sent), *counts} if counts[n] != 1}

    def table_positions(self) -> dict[PartitionKey, int]:
        return OffsetsTable(str(self.folder / "offsets")).positions("clicks_etl", ["clicks"])
