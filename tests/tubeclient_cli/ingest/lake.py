"""A target and a dead-letter table, and runs that write to them: each begins where the target's rows end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from deltalake import DeltaTable

from spark_source.offsets.offsets import Offsets
from spark_source.options.row_options import RowOptions
from spark_source.read.schema import spark_schema
from spark_source.typed.record_format import BAD_REASON, RECORD, UNREAD, RecordFormat
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey
from tubeclient_cli.ingest.batch_writer import BatchWriter
from tubeclient_cli.ingest.letter_states import BAD
from tubeclient_cli.ingest.settings import IngestSettings
from tubeclient_cli.ingest.sink import DeltaSink
from tubeclient_cli.ingest.sink_record import SinkRecord

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["KEY", "Divisible", "Lake", "Run", "cut_history", "killed_at", "wrong"]

KEY = PartitionKey(1, "clicks", 0)
_SCHEMA = spark_schema(RowOptions())


class Killed(BaseException):
    """Whoever is asked after it is not there any more."""


def killed_at(place: type, method: str, *, after: bool, run: Callable[[], object]) -> None:
    """Do `run`, which dies when it calls the method: before the method does anything, or after all it does."""
    real = getattr(place, method)

    def die(*arguments: Any) -> None:
        if after:
            real(*arguments)
        raise Killed

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(place, method, die)
        with pytest.raises(Killed):
            run()


@dataclass(frozen=True)
class Divisible(RecordFormat):
    """A parser for which the records are bad whose number can be divided; others stay as they are."""

    by: tuple[int, ...] = ()
    unread: bool = False
    """Whether its bad records are the source's."""

    def parse(self, rows: DataFrame, *, keep: bool = False) -> DataFrame:
        from pyspark.sql import functions as F

        number = F.col("value").cast("string").cast("int")
        bad = F.lit(False)
        for divisor in self.by:
            bad = bad | (number % divisor == 0)
        reason = F.when(bad, F.concat(F.lit("divisible: "), number.cast("string")))
        record = F.when(~bad, F.struct("*"))
        return rows.select("*", record.alias(RECORD), reason.alias(BAD_REASON), F.lit(self.unread).alias(UNREAD))


def cut_history(target: Path) -> None:
    """Leave of a table's history one commit of others, as Delta does after `delta.logRetentionDuration`."""
    DeltaTable(str(target)).optimize.compact()
    table = DeltaTable(str(target))
    table.create_checkpoint()
    for version in range(table.version()):
        (target / "_delta_log" / f"{version:020}.json").unlink()


class Run(NamedTuple):
    sink: DeltaSink
    writer: BatchWriter

    def write(self, lake: Lake, size: int) -> None:
        """Write the next `size` records."""
        state = self.sink.look()
        self.writer.settle(state)
        start = state.ends.get(KEY, 0) // INDEX_ENTRY_BYTES
        end = INDEX_ENTRY_BYTES * (start + size)
        record = SinkRecord(lake.group, "q", state.sequence, Offsets({KEY: end}))
        self.writer.write(lake.records(start, start + size), record, state)


class Lake:
    """Numbered records from 0 on, without an end."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.group = "g"
        self.target = folder / "target"
        self.letters = folder / "letters"
        self.bad_by: tuple[int, ...] = (3,)
        self.unread = False
        self.record_format: RecordFormat | None = None
        """Instead of `Divisible`; a record's text is its number."""

    def start(self, **settings: Any) -> Run:
        """A run up to its first batch."""
        given: dict[str, Any] = {
            "master_servers": "127.0.0.1:8715",
            "consumer_group": self.group,
            "topics": ("clicks",),
            "target": str(self.target),
            "checkpoint": "/c",
            "bad_records": str(self.letters),
            **settings,
        }
        job = IngestSettings(**given)
        sink = DeltaSink(self.spark, job.target, job.consumer_group)
        record_format = self.record_format or Divisible(by=self.bad_by, unread=self.unread)
        writer = BatchWriter(self.spark, job, sink, record_format)
        writer.open()
        writer.settle(sink.look())
        return Run(sink, writer)

    def run(self, *sizes: int, **settings: Any) -> Run:
        run = self.start(**settings)
        for size in sizes:
            run.write(self, size)
        return run

    def records(self, start: int, end: int) -> DataFrame:
        known = {
            "topic": "'clicks'",
            "partitionKey": f"'{KEY}'",
            "messageId": "id",
            "value": "cast(cast(id AS string) AS binary)",
        }
        columns = (f"cast({known.get(f.name, 'NULL')} AS {f.dataType.simpleString()}) {f.name}" for f in _SCHEMA)
        return self.spark.range(start, end, numPartitions=2).selectExpr(*columns)

    def restore(self, version: int) -> None:
        self.spark.sql(f"RESTORE TABLE delta.`{self.target}` TO VERSION AS OF {version}").collect()

    def cut_history(self) -> None:
        """Leave of the target's history one commit of others."""
        cut_history(self.target)

    def target_id(self) -> str:
        return str(DeltaTable(str(self.target)).metadata().id)

    def good(self) -> list[int]:
        if not DeltaTable.is_deltatable(str(self.target)):
            return []
        return sorted(map(int, DeltaTable(str(self.target)).to_pyarrow_table().column("value").to_pylist()))

    def bad(self, state: str = BAD) -> list[int]:
        rows = DeltaTable(str(self.letters)).to_pyarrow_table(columns=["value", "state"]).to_pylist()
        return sorted(int(row["value"]) for row in rows if row["state"] == state)

    def staged(self) -> list[Path]:
        folder = self.letters / "_staged"
        return list(folder.iterdir()) if folder.exists() else []

    def repeated_or_missing(self, end: int) -> dict[int, int]:
        """Numbers below `end` that are not in exactly one of the two tables once; {} is what it should be."""
        return wrong([*self.good(), *self.bad()], end)


def wrong(found: Iterable[int], end: int) -> dict[int, int]:
    counts = Counter(found)
    return {n: counts[n] for n in {*range(end), *counts} if counts[n] != 1}
