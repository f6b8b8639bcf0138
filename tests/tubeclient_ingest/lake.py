"""A target and a table of bad records, and runs that write to them: each begins where the target's rows end."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from deltalake import DeltaTable

from spark_source.offsets.offsets import Offsets
from spark_source.options.given import parse_options
from spark_source.options.source_options import RowOptions
from spark_source.read.schema import spark_schema
from spark_source.typed.columns import BAD_REASON, RECORD, UNREAD
from spark_source.typed.record_format import RecordFormat
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey
from tubeclient_ingest.commits.history import BAD
from tubeclient_ingest.commits.record import SinkRecord
from tubeclient_ingest.rounds.bad_records import BadRecords
from tubeclient_ingest.rounds.retrying import bad_records
from tubeclient_ingest.rounds.writing import Writer
from tubeclient_ingest.settings.ingest_settings import IngestSettings
from tubeclient_ingest.tables.log_table import LogTable
from tubeclient_ingest.tables.spark_table import SparkTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["KEY", "Divisible", "Killed", "Lake", "Run", "cut_history", "each_commit", "killed_at", "wrong"]

KEY = PartitionKey(1, "clicks", 0)
_SCHEMA = spark_schema(RowOptions())


class Killed(BaseException):
    """Whoever is asked after it is not there any more."""


def killed_at(place: type, method: str, *, after: bool, run: Callable[[], object]) -> None:
    """Do `run`, which dies when it calls the method: before the method does anything, or after all it does."""
    real = getattr(place, method)

    def die(*arguments: Any, **named: Any) -> None:
        if after:
            real(*arguments, **named)
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


@contextmanager
def each_commit(around: Callable[[Any, SinkRecord | None, Callable[[], None]], object]) -> Iterator[None]:
    """Within it `around` gets each commit of the job, whoever makes it: the table, the record, and what commits."""
    append, commit = SparkTable.append, LogTable.commit

    def by_spark(table: SparkTable, rows: Any, record: SinkRecord | None = None, **named: Any) -> None:
        around(table, record, lambda: append(table, rows, record, **named))

    def by_tasks(table: LogTable, files: Any, record: SinkRecord | None = None) -> None:
        around(table, record, lambda: commit(table, files, record))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SparkTable, "append", by_spark)
        patched.setattr(LogTable, "commit", by_tasks)
        yield


def cut_history(target: Path, *, to_others: bool = True) -> None:
    """Leave of a table's history one commit, as Delta does after `delta.logRetentionDuration`: one of others, or the
    newest."""
    if to_others:
        DeltaTable(str(target)).optimize.compact()
    table = DeltaTable(str(target))
    table.create_checkpoint()
    for version in range(table.version()):
        (target / "_delta_log" / f"{version:020}.json").unlink(missing_ok=True)


class Run(NamedTuple):
    writer: Writer
    run_id: str

    def write(self, lake: Lake, size: int) -> None:
        """Write the next `size` records."""
        state = self.writer.sink.read_state()
        start = state.ends.get(KEY, 0) // INDEX_ENTRY_BYTES
        ends = Offsets({KEY: INDEX_ENTRY_BYTES * (start + size)})
        self.writer.write(lake.records(start, start + size), SinkRecord(lake.group, self.run_id, ends), state)


class Lake:
    """Numbered records from 0 on, without an end."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.group = "g"
        self.target = folder / "target"
        self.bad_records = folder / "bad"
        self.bad_by: tuple[int, ...] = (3,)
        self.unread = False
        self.record_format: RecordFormat | None = None
        """Instead of `Divisible`; a record's text is its number."""

    def settings(self, **settings: Any) -> IngestSettings:
        given: dict[str, Any] = {
            "master_servers": "127.0.0.1:8715",
            "consumer_group": self.group,
            "topics": ("clicks",),
            "target": str(self.target),
            "bad_records": str(self.bad_records),
            "writer": "spark",
            **settings,
        }
        return IngestSettings(**given)

    def start(self, **settings: Any) -> Run:
        """A run up to its first round."""
        job, run_id = self.settings(**settings), uuid.uuid4().hex
        options = parse_options(job.options("earliest"))
        table = None
        if job.bad_records is not None:
            table = BadRecords(SparkTable(self.spark, job.bad_records), self.group)
        record_format = self.record_format or Divisible(by=self.bad_by, unread=self.unread)
        target = SparkTable(self.spark, job.target)
        writer = Writer(self.spark, job, options, target, table, record_format)
        writer.open()
        writer.confirm(writer.sink.read_state())
        return Run(writer, run_id)

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

    def target_id(self) -> str:
        return str(DeltaTable(str(self.target)).metadata().id)

    def good(self) -> list[int]:
        if not DeltaTable.is_deltatable(str(self.target)):
            return []
        return sorted(map(int, DeltaTable(str(self.target)).to_pyarrow_table().column("value").to_pylist()))

    def bad(self, state: str = BAD) -> list[int]:
        return self.states()[state]

    def states(self) -> defaultdict[str, list[int]]:
        """The bad records of each state: one look, for tests that ask for several."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for row in bad_records(self.start().writer).select("state", "value").collect():
            found[row.state].append(int(row.value))
        return defaultdict(list, {state: sorted(numbers) for state, numbers in found.items()})

    def rows_of_bad(self) -> list[dict[str, Any]]:
        """The rows of their table, but for those that confirm something."""
        rows: list[dict[str, Any]] = DeltaTable(str(self.bad_records)).to_pyarrow_table().to_pylist()
        return [row for row in rows if row["id"] or row["retryOf"]]

    def repeated_or_missing(self, end: int, bad: Iterable[int] | None = None) -> dict[int, int]:
        """Numbers below `end` that are not in exactly one of the two tables once; {} is what it should be. `bad` is
        what `bad()` says, where the test has asked already."""
        return wrong([*self.good(), *(self.bad() if bad is None else bad)], end)


def wrong(found: Iterable[int], end: int) -> dict[int, int]:
    counts = Counter(found)
    return {n: counts[n] for n in {*range(end), *counts} if counts[n] != 1}
