"""A cluster with one topic, and the ingest job that reads it into a Delta table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from embedded_tubemq import EmbeddedTubeMQ
from embedded_tubemq.storage.store import NewMessage
from offsets_store import OffsetsTable
from tubeclient.keys import PartitionKey
from tubeclient_ingest.job import Ingest
from tubeclient_ingest.run import Begins, Event, Round
from tubeclient_ingest.settings.ingest_settings import IngestSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["KEYS", "Bench", "Seen"]

KEYS = [PartitionKey(1, "clicks", 0), PartitionKey(1, "clicks", 10_000)]


class Seen:
    """Takes what a run tells; `on_round` is called for each round."""

    def __init__(self, bench: Bench, on_round: Callable[[Round], object] = lambda _: None) -> None:
        self._bench = bench
        self._on_round = on_round
        self.rounds: list[Round] = []

    def __call__(self, event: Event) -> None:
        match event:
            case Begins(text):
                self._bench.said.append(text)
            case Round():
                self.rounds.append(event)
                self._on_round(event)


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
            offsets_table=str(folder / "offsets"),
            source_count=2,
            source_options={"masterWebPort": str(tube.master_web_port)},
        )

    def send(self, count: int, *, broker_id: int = 1) -> None:
        """Append so many numbered messages, half to each store."""
        numbers = range(self.sent, self.sent + count)
        self.sent += count
        self.tube.load("clicks", [NewMessage(10_000 * (n % 2), str(n).encode()) for n in numbers], broker_id=broker_id)

    def run(self, **changes: Any) -> list[Round]:
        """Run the job until it has read what there is; returns its rounds."""
        seen = Seen(self)
        summary = self.job(**changes).run(seen)
        assert (summary.rounds, summary.rows) == (len(seen.rounds), sum(one.rows for one in seen.rounds))
        assert not summary.stopped
        return seen.rounds

    def job(self, **changes: Any) -> Ingest:
        return Ingest(self.spark, settings=replace(self.settings, **changes))

    def rows(self, **changes: Any) -> int:
        """Run the job; returns how many rows it has written."""
        return sum(one.rows for one in self.run(**changes))

    def restore(self, version: int) -> None:
        """As somebody does it who finds the newest rows wrong."""
        self.spark.sql(f"RESTORE TABLE delta.`{self.settings.target}` TO VERSION AS OF {version}").collect()

    def repeated_or_missing(self) -> dict[int, int]:
        """Message numbers that are not in the table exactly once; {} is what it should be."""
        table = QueryBuilder().register("rows", DeltaTable(self.settings.target))
        found = pa.table(table.execute('SELECT "value" FROM rows').read_all())
        counts = Counter(map(int, found.column("value").to_pylist()))
        return {n: counts[n] for n in {*range(self.sent), *counts} if counts[n] != 1}

    def table_positions(self) -> dict[PartitionKey, int]:
        return OffsetsTable(str(self.folder / "offsets")).positions("clicks_etl", ["clicks"])
