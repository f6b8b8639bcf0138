"""The table of bad records: those of one or many jobs, in Delta. Rows are added, and never changed.

A commit's bad records are written before it, with its number and its run. They count once the target has a commit of
this number and this run. So each record is in exactly one of the two tables, whoever dies or loses a race in between.
A retry adds marks in the same way: rows that name the records that it moved. Which state a row has follows from the
target's history, and is computed by whoever reads the table.

A history ends, so now and then a run confirms older numbers: it adds a row for each number and run that has rows, and
whose commit the target has. What others add later for such numbers, who stood still or were overtaken, never counts.
If the target was put back from a copy, the next number is above all those of rows.
Rows of no commit are removed where that is easy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from spark_source.options.source_options import ALL_ATTRIBUTES, RowOptions, SourceOptions
from spark_source.options.table_uris import text_in_sql
from spark_source.read.schema import arrow_types, spark_schema
from spark_source.typed.columns import ARRIVAL, BAD_REASON, UNREAD, VALUE
from tubeclient.errors import ConfigurationError
from tubeclient.printable import without_passwords
from tubeclient_ingest.commits.history import BAD, RETRIED, UNDONE, SinkState, committed
from tubeclient_ingest.commits.record import SinkRecord
from tubeclient_ingest.tables.data_files import DataFile, DataFiles
from tubeclient_ingest.tables.formats import FilesTable, JobTable, files_of
from tubeclient_ingest.tables.log_table import LogTable
from tubeclient_ingest.tables.spark_table import SparkTable
from tubeclient_ingest.tables.table_detail import TableDetail
from tubeclient_ingest.tasks.staging import BadDestination

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

BAD_ID: Final = "__badId"
"""The column that names a row of the table, beside the source's columns of a record that is tried again."""
_ID: Final = "id"
"""The same column in the table."""
_REASON: Final = "reason"
_PLACE: Final = "place"
"""The column of `ARRIVAL`'s place; null where the order of rows did not matter."""
_MARK: Final = "retryOf"
"""The column that is null in a bad record; in a mark it is the id of the record that was moved."""
_CONFIRMATION: Final = f"`{_ID}` IS NULL AND `{_MARK}` IS NULL"
"""SQL for a row that says of an attempt that the target has its commit."""


class Attempt(NamedTuple):
    """To commit to a target: what rows were written for."""

    target_id: str
    number: int
    run_id: str


class BadRecords:
    """The table, for one consumer group and one target; many may share it."""

    def __init__(self, table: JobTable, consumer_group: str, *, has_value: bool = True) -> None:
        """Without `has_value` the rows that are added lack the records' bytes."""
        self._has_value = has_value
        self._table = table
        self._consumer_group = consumer_group
        self._log: FilesTable | None = None
        self._detail: TableDetail | None = None

    def open(self, *, create: bool) -> None:
        """Make the table if it is missing; without `create` that is a ConfigurationError."""
        self._log, self._detail = None, self._table.detail()
        if self._detail is None:
            if not create:
                raise ConfigurationError(f"there is no table of bad records at {self._table.where}; check bad-records")
            self._detail = self._table.create(_table_schema())
        if lacking := {"consumerGroup", "target", "targetId", "sequence", "runId"}.difference(
            self.detail.columns.names
        ):
            where = self._table.where
            raise ConfigurationError(
                f"{where} is not a table of bad records: it has no column {min(lacking)}. Name another for bad-records"
            )

    @property
    def detail(self) -> TableDetail:
        """What the table is, once `open` was called."""
        assert self._detail is not None
        return self._detail

    def open_log(self, storage_options: Mapping[str, str]) -> str | None:
        """Make ready for files that tasks write, or return why they cannot. `open` was called."""
        detail = self.detail
        missing = [column.name for column in _table_schema() if column.name not in detail.columns.names]
        found = files_of(self._table, detail, storage_options)
        if isinstance(found, str) or missing:
            return f"of {self._table.where}: {found if isinstance(found, str) else f'it lacks {missing[0]}'}"
        self._log = found
        return None

    def destination(self, record: SinkRecord, target: TableDetail) -> BadDestination:
        """Where tasks write bad records for the target's commit `record`, which comes next."""
        assert self._log is not None
        destination = self._log.destination(_table_types())
        return BadDestination(destination, _written_for(record, target), self._has_value)

    def add_files(self, files: Sequence[DataFile]) -> None:
        """Add files that were written to such a destination."""
        assert self._log is not None
        self._log.history(1)
        self._log.commit(files)

    def add(self, parsed: DataFrame, record: SinkRecord, target: TableDetail) -> None:
        """Add the bad rows of parsed records, for the target's commit `record`, which comes next."""
        from pyspark.sql import functions as F

        there = {*parsed.columns} if self._has_value else {*parsed.columns} - {VALUE}
        columns = [
            F.col(field.name) if field.name in there else F.lit(None).cast(field.dataType).alias(field.name)
            for field in _source_schema()
        ]
        self._append(
            parsed.where(F.col(BAD_REASON).isNotNull()).select(
                *columns,
                F.col(BAD_REASON).alias(_REASON),
                F.current_timestamp().alias("time"),
                F.uuid().alias(_ID),
                F.col(UNREAD).alias(UNREAD),
                (F.col(ARRIVAL)["place"] if ARRIVAL in parsed.columns else F.lit(None).cast("long")).alias(_PLACE),
            ),
            record,
            target,
        )

    def add_marks(self, parsed: DataFrame, record: SinkRecord, target: TableDetail) -> None:
        """Add marks for the good rows of records that were tried again, for the target's commit `record`, which comes
        next."""
        from pyspark.sql import functions as F

        good = parsed.where(F.col(BAD_REASON).isNull())
        self._append(good.select(F.col(BAD_ID).alias(_MARK), F.current_timestamp().alias("time")), record, target)

    def with_states(self, state: SinkState, there: Collection[Attempt]) -> DataFrame:
        """The group's bad records of the target, which says `state` of the group, with the column `state`. `there` are
        the attempts whose commits the target has, of those that are not confirmed."""
        from pyspark.sql import functions as F

        own = self._own(state.table_ids)
        names, keys = [name for name in own.columns if name != _MARK], ["sequence", "runId"]
        confirmed = own.where(_CONFIRMATION).select(*keys).distinct()
        own = own.join(confirmed.withColumn("isConfirmed", F.lit(True)), keys, "left").fillna(False, ["isConfirmed"])
        count = F.expr(committed(state, [attempt[1:] for attempt in there]))
        marks = own.where(F.col(_MARK).isNotNull() & count).select(F.col(_MARK).alias("__moved")).distinct()
        rows = own.where(F.col(_ID).isNotNull()).join(marks, F.col(_ID) == F.col("__moved"), "left")
        found = F.when(~count, UNDONE).when(F.col("__moved").isNotNull(), RETRIED).otherwise(BAD)
        return rows.withColumn("state", found).select(*names, "state")

    @staticmethod
    def to_retry(rows: DataFrame, options: SourceOptions) -> DataFrame:
        """Those of `bad` rows that can be tried again, with the source's columns, `BAD_ID` and `ARRIVAL`."""
        from pyspark.sql import functions as F

        rows = rows.where(~F.col(UNREAD) & F.col(VALUE).isNotNull())
        columns = [name for name in spark_schema(options).names if name != BAD_REASON]
        came = F.struct(F.col("sequence").alias("round"), F.coalesce(_PLACE, F.lit(-1)).alias("place"))
        return rows.select(*columns, F.col(_ID).alias(BAD_ID), came.alias(ARRIVAL))

    @staticmethod
    def not_to_retry(rows: DataFrame) -> tuple[int, int]:
        """How many of the others there are: those whose messages the source could not read, and of the rest those whose
        bytes were not kept."""
        from pyspark.sql import functions as F

        is_without_value = ~F.col(UNREAD) & F.col(VALUE).isNull()
        counts = rows.agg(F.count_if(UNREAD), F.count_if(is_without_value)).collect()[0]
        return counts[0], counts[1]

    @staticmethod
    def bad(rows: DataFrame, topics: Sequence[str], reason: str | None) -> DataFrame:
        """Those of rows with states that are bad, of these topics. `reason` is a part of the reason; None chooses
        all."""
        from pyspark.sql import functions as F

        rows = rows.where((F.col("state") == BAD) & F.col("topic").isin(*topics))
        return rows if reason is None else rows.where(F.contains(F.lower(_REASON), F.lower(F.lit(reason))))

    def unconfirmed(self, table_ids: Sequence[str]) -> set[Attempt]:
        """The attempts to commit for which there are rows, behind the last one of their table that is confirmed."""
        ids = f"`targetId` IN ({', '.join(['{}'] * len(table_ids))})"
        found = self._numbers("`targetId`, ", ids, *table_ids) if table_ids else []
        confirmed = {target_id: last or 0 for target_id, number, last in found if number > (last or 0)}
        if not confirmed:
            return set()
        behind = f"{ids} AND `sequence` > {min(confirmed.values())}"
        found = self._numbers("`targetId`, `sequence`, `runId`, ", behind, *table_ids)
        return {Attempt(*attempt) for *attempt, number, _ in found if number > confirmed.get(attempt[0], number)}

    def last_numbers(self, table_ids: Sequence[str], target: TableDetail) -> tuple[int, int]:
        """The highest number for which there are rows, for a table of these ids or at the target's place; and the
        highest one that is confirmed. 0 without any."""
        which = " OR ".join([*["`targetId` = {}"] * len(table_ids), "`target` = {}"])
        [(tried, confirmed)] = self._numbers("", f"({which})", *table_ids, _place(target))
        return tried or 0, confirmed or 0

    def _numbers(self, keys: str, where: str, *texts: str) -> list[tuple[Any, ...]]:
        """The keys of the group's rows for which SQL is true, each with its highest number and the highest one that is
        confirmed; each {} is one of the texts. delta-rs is asked if it can read the table: it takes a tenth of the
        time."""
        from pyspark.sql import functions as F

        last = "max(`sequence`)", f"max(CASE WHEN {_CONFIRMATION} THEN `sequence` END)"
        if not isinstance(self._log, LogTable) or self._log.has_deletion_vectors:
            rows = self._table.rows(f"consumerGroup = {text_in_sql(self._consumer_group)}")
            rows = rows.where(where.format(*map(text_in_sql, texts)))
            names = [key.strip(" `") for key in keys.split(",")[:-1]]
            return [tuple(row) for row in rows.groupBy(*names).agg(*map(F.expr, last)).collect()]
        sql = f"SELECT {keys}{', '.join(last)} FROM log WHERE `consumerGroup` = {{}} AND {where}"  # noqa: S608
        sql += f" GROUP BY {keys.rstrip(', ')}" if keys else ""
        found = self._log.query(sql.replace("`", '"').replace("{}", "'{}'"), self._consumer_group, *texts)
        return list(zip(*found.values(), strict=True))

    def last_number(self, target: TableDetail) -> int:
        """The highest number for which there are rows; 0 without any."""
        [(number, _)] = self._numbers("", "`targetId` = {}", target.table_id)
        return number or 0

    def former(self, target: TableDetail) -> dict[str, int]:
        """The ids of other tables for which there are rows, and which were where the target is, with the highest number
        of each."""
        others = "`target` = {} AND `targetId` <> {}"
        found = self._numbers("`targetId`, ", others, _place(target), target.table_id)
        return {target_id: number for target_id, number, _ in found}

    def confirm(self, there: Collection[Attempt], target: TableDetail) -> None:
        """Write down that the target has the commits of these attempts."""
        import pyarrow as pa

        if not there:
            return
        own = {**_of_target(self._consumer_group, target), "time": datetime.now(UTC)}
        each = [
            {**own, "targetId": attempt.target_id, "sequence": attempt.number, "runId": attempt.run_id}
            for attempt in there
        ]
        rows = pa.Table.from_pylist(each, schema=_table_types())
        if self._log is None:
            assert isinstance(self._table, SparkTable)
            self._table.append(self._table.frame(rows))
            return
        files = DataFiles(self._log.destination(rows.schema))
        files.add(rows)
        self.add_files(files.close())

    def remove(self, void: Iterable[Attempt]) -> None:
        """Remove the rows of these attempts."""
        for target in {attempt.target_id for attempt in void}:
            some = sorted((number, run) for target_id, number, run in void if target_id == target)
            which = " OR ".join(f"(sequence = {number} AND runId = {text_in_sql(run)})" for number, run in some)
            self._table.delete(f"{self._of_group([target])} AND ({which})")

    def _append(self, rows: DataFrame, record: SinkRecord, target: TableDetail) -> None:
        from pyspark.sql import functions as F

        same = {name: F.lit(value) for name, value in _written_for(record, target).items()}
        self._table.append(rows.withColumns({**same, "sequence": same["sequence"].cast("long")}))

    def _own(self, table_ids: Sequence[str]) -> DataFrame:
        return self._table.rows(self._of_group(table_ids))

    def _of_group(self, table_ids: Sequence[str]) -> str:
        """SQL for the group's rows, as Spark and pyiceberg read it."""
        ids = ", ".join(map(text_in_sql, table_ids))
        return f"consumerGroup = {text_in_sql(self._consumer_group)} AND targetId IN ({ids})"


def _written_for(record: SinkRecord, target: TableDetail) -> dict[str, str | int]:
    """What all rows of a commit have."""
    return {**_of_target(record.consumer_group, target), "sequence": record.sequence, "runId": record.run_id}


def _of_target(consumer_group: str, target: TableDetail) -> dict[str, str | int]:
    """What all rows of a group and a target have."""
    return {"consumerGroup": consumer_group, "target": _place(target), "targetId": target.table_id}


def _place(target: TableDetail) -> str:
    return without_passwords(target.location)


@cache
def _source_schema() -> StructType:
    """Whatever columns the source may have, for a second try with another format."""
    return spark_schema(RowOptions(payload="inlong", columns=ALL_ATTRIBUTES))


@cache
def _table_types() -> pa.Schema:
    return arrow_types(_table_schema())


@cache
def _table_schema() -> StructType:
    from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType, TimestampType

    kinds = {
        **dict.fromkeys(("consumerGroup", "target", "targetId", "runId", _MARK), StringType()),
        "sequence": LongType(),
        **{field.name: field.dataType for field in _source_schema()},
        _REASON: StringType(),
        "time": TimestampType(),
        _ID: StringType(),
        UNREAD: BooleanType(),
        _PLACE: LongType(),
    }
    return StructType([StructField(name, kind) for name, kind in kinds.items()])
