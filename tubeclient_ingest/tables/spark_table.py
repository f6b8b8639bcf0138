"""The job's Delta table through Spark's SQL, by path or by name: what the sink asks of it. No JVM of ours, so it is the
same over Spark Connect. Plain tables in folders of this machine, or in a store that delta-rs has options for, are
looked up and made by their log: that costs Spark a thousand times as much, and jars for the store."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from spark_source.options.table_uris import is_name, limited, quoted, table_in_sql, text_in_sql, type_in_sql
from tubeclient.errors import ConfigurationError
from tubeclient.flows.effects import backoff_ms
from tubeclient.printable import display_uri
from tubeclient_ingest.commits.history import Commit
from tubeclient_ingest.commits.record import SinkRecord
from tubeclient_ingest.tables.delta_log import DeltaLog
from tubeclient_ingest.tables.spark_errors import IngestFailed, LogError, explained, failure, is_conflict, is_missing
from tubeclient_ingest.tables.table_detail import (
    TableDetail,
    create_in_log,
    detail_in_log,
    has_local_files,
    is_known_to_delta_rs,
    local_folder,
)
from tubeclient_ingest.tables.target_columns import check_columns

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["SparkTable", "quoted", "text_in_sql", "writing_confs"]

_OF_LOG: Final = "txn STRUCT<appId: STRING, version: BIGINT>"
_DEFAULTS: Final = "spark.databricks.delta.properties.defaults."
"""How a session's settings begin that give new tables properties."""
_TRIES: Final = 6
"""How often to make a table whose folder has something else."""


class SparkTable:
    """The Delta table `identifier`, a path or a name. Errors are Spark's."""

    def __init__(
        self,
        spark: SparkSession,
        identifier: str,
        due: Callable[[SparkTable], None] = lambda _: None,
        storage_options: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`due` is told of the table when its files should be put together; `storage_options` are delta-rs's."""
        self._spark, self._due = spark, due
        self._location = ""
        self.is_named = is_name(identifier)
        """Whether a catalog says where it is."""
        self.sql = table_in_sql(identifier)
        # With these parts a path may mean one folder to Hadoop and another to the system.
        folder = (
            None if self.is_named or ".." in identifier or identifier.startswith("//") else local_folder(identifier)
        )
        self._folder = folder if folder is not None and has_local_files(spark) else None
        self.where = display_uri(self.sql)
        """For messages."""
        self.log: DeltaLog | None = None
        """Of a table that delta-rs reaches too."""
        if self._folder is not None and is_known_to_delta_rs(self._folder):
            self.log = DeltaLog(self._folder, self.where)
        elif storage_options and "://" in identifier and not self.is_named:
            self.log = DeltaLog(identifier, self.where, limited(identifier, storage_options))

    def detail(self) -> TableDetail | None:
        """None if there is no table."""
        found = None
        if self._folder is None or Path(self._folder).exists():
            found = None if self.log is None else detail_in_log(self.log)
            if found is None and not self._is_missing():
                found = self._described()
        self._location = "" if found is None else found.location
        return found

    def _is_missing(self) -> bool:
        """Whether there is no table in a store that perhaps only delta-rs reaches."""
        if self.log is None or self._folder is not None:
            return False
        try:
            return self.log.refresh() is None
        except LogError:
            return False

    def _described(self) -> TableDetail | None:
        """As Spark says it."""
        from pyspark.errors import PySparkException

        try:
            found = self._spark.sql(f"DESCRIBE DETAIL {self.sql}").collect()[0]
        except PySparkException as error:
            if is_missing(error):
                return None
            if error.getCondition() == "REQUIRES_SINGLE_PART_NAMESPACE":
                raise ConfigurationError(
                    f"this session has no catalog named {self.where.partition('.')[0]}; SHOW CATALOGS lists them"
                ) from None
            raise
        if found.format != "delta":
            raise ConfigurationError(f"{self.where} has the table format {found.format}, but the job writes Delta")
        columns, properties = self._spark.table(self.sql).schema, dict(found.properties or {})
        return TableDetail(found.id, found.location or "", columns, properties, tuple(found.partitionColumns or ()))

    def create(
        self,
        columns: StructType,
        partition_by: Sequence[str] = (),
        cluster_by: Sequence[str] = (),
        properties: Mapping[str, str] = MappingProxyType({}),
    ) -> TableDetail:
        """Make the table, unless it is there. IngestFailed."""
        self._create(columns, partition_by, cluster_by, properties)
        for tries in range(_TRIES):
            if (found := self.detail()) is not None:
                return found
            time.sleep(backoff_ms(tries, random.random()) / 1000)  # perhaps another job is making it
        raise IngestFailed(
            f"the table {self.where} cannot be created: its folder has a _delta_log without a commit. A run leaves "
            "that if it is killed while Spark creates the table. Remove that _delta_log, and start again"
        )

    def _create(
        self,
        columns: StructType,
        partition_by: Sequence[str],
        cluster_by: Sequence[str],
        properties: Mapping[str, str],
    ) -> None:
        from pyspark.errors import PySparkException

        log = None if cluster_by else self.log
        has_defaults = log is not None and any(name.startswith(_DEFAULTS) for name in self._spark.conf.getAll)
        if log is not None and not has_defaults and create_in_log(log, columns, partition_by, properties):
            return
        # Spark's own `toDDL` wants a session that is active in this thread.
        ddl = ", ".join(
            f"{quoted(column.name)} {type_in_sql(column.dataType)}{'' if column.nullable else ' NOT NULL'}"
            for column in columns
        )
        parts = [f"CREATE TABLE IF NOT EXISTS {self.sql} ({ddl}) USING DELTA"]
        there = {name.lower() for name in columns.names}
        layout = (("partition-by", "PARTITIONED BY", partition_by), ("cluster-by", "CLUSTER BY", cluster_by))
        for setting, words, names in layout:
            if lacking := ", ".join(name for name in names if name.lower() not in there):
                raise ConfigurationError(f"{setting} names {lacking}; the rows have {', '.join(columns.names)}")
            if names:
                parts.append(f"{words} ({', '.join(map(quoted, names))})")
        if properties:
            parts.append(f"TBLPROPERTIES ({_pairs(properties)})")
        with explained(f"the table {self.where} cannot be created: "):
            for tries in range(_TRIES):
                try:
                    self._spark.sql(" ".join(parts)).collect()
                    return
                except PySparkException as error:
                    if is_conflict(error):  # another job made it at the same moment
                        return
                    if error.getCondition() != "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION":
                        raise
                    if tries == _TRIES - 1:
                        advice = (
                            "If it is a Delta table, the catalog forgot it when Spark ended; use the folder as the "
                            "target"
                        )
                        raise IngestFailed(f"{failure(str(error))} {advice}") from None
                # Perhaps it is of another job, which has made the folder, and soon the table.
                time.sleep(backoff_ms(tries, random.random()) / 1000)

    @staticmethod
    def stored(columns: StructType) -> StructType:
        """Columns as the table has them."""
        return columns

    def rows(self, where: str = "true") -> DataFrame:
        """The rows that are there now, after `detail`, for which this SQL is true, whatever Spark has in its cache: it
        hears nothing of what others write, nor of what tasks do."""
        from pyspark.errors import PySparkException

        if self._location:
            with suppress(PySparkException):  # a catalog that hides its files
                self._spark.catalog.refreshByPath(self._location)
        return self._spark.table(self.sql).where(where)

    def frame(self, rows: pa.Table) -> DataFrame:
        """A frame of these rows."""
        return self._spark.createDataFrame(rows)

    def delete(self, where: str) -> None:
        """Delete the rows for which this SQL is true."""
        self._spark.sql(f"DELETE FROM {self.sql} WHERE {where}").collect()  # noqa: S608

    def is_empty(self) -> bool:
        """Whether the table, which is there, has no rows."""
        return self.rows().isEmpty()

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Set these properties of the table, if there are any."""
        if properties:
            self._spark.sql(f"ALTER TABLE {self.sql} SET TBLPROPERTIES ({_pairs(properties)})").collect()

    def widen(self, column: str, kind: str) -> None:
        """Give a column a wider type."""
        self._spark.sql(f"ALTER TABLE {self.sql} ALTER COLUMN {quoted(column)} TYPE {kind}").collect()

    def ask_for_upkeep(self) -> None:
        """Have the files put together soon."""
        self._due(self)

    def optimize(self) -> None:
        """Put small files together."""
        self._spark.sql(f"OPTIMIZE {self.sql}").collect()

    def read_ahead(self) -> None:
        """Have Spark read the table's state, which it needs for its next commit."""
        self._spark.sql(f"DESCRIBE DETAIL {self.sql}").collect()

    def history(self, limit: int) -> list[Commit]:
        """The last commits of the table, newest first, at most `limit`; none if there is no table."""
        from pyspark.errors import PySparkException

        try:
            # As it is: to select columns would be a job for each look.
            rows = self._spark.sql(f"DESCRIBE HISTORY {self.sql} LIMIT {limit}").collect()
        except PySparkException as error:
            if is_missing(error):
                return []
            raise
        rows.sort(key=lambda row: int(row.version), reverse=True)
        return [Commit.of(row.asDict(), self.where) for row in rows]

    def removing(self, versions: Collection[int], location: str) -> set[int]:
        """Those of `versions` whose commits removed data by the table's log, or may have: where it no longer says."""
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as F

        reader = self._spark.read.schema("remove STRUCT<dataChange: BOOLEAN>").option("__globPaths__", "false")
        reader = reader.option("ignoreCorruptFiles", "false")
        try:
            actions = reader.json([f"{location.rstrip('/')}/_delta_log/{version:020}.json" for version in versions])
            removes = F.expr("bool_or(remove IS NOT NULL AND coalesce(remove.dataChange, true))").alias("removes")
            found = actions.groupBy(F.col("_metadata.file_name").alias("entry")).agg(removes).collect()
        except PySparkException:
            return set(versions)
        return set(versions).difference(int(row.entry[:20]) for row in found if not row.removes)

    def last_number(self, transaction_id: str, detail: TableDetail) -> int:
        """The last number of a transaction that the table knows; 0 without any."""
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as F

        log = f"{detail.location.rstrip('/')}/_delta_log"
        numbers = [0]
        with suppress(PySparkException):  # a table of a catalog that hides its files
            for form, names in (("json", "*.json"), ("parquet", "*.checkpoint*.parquet")):
                reader = self._spark.read.format(form).schema(_OF_LOG)
                reader = reader.option("pathGlobFilter", names).option("ignoreMissingFiles", "true")
                # Whatever the session says, and whatever other folder the path would be a pattern for.
                reader = reader.option("ignoreCorruptFiles", "false").option("__globPaths__", "false")
                own = reader.load(log).where(F.col("txn.appId") == transaction_id)
                numbers.append(int(own.agg(F.max("txn.version")).collect()[0][0] or 0))
        return max(numbers)

    def append(self, rows: DataFrame | None, record: SinkRecord | None = None, *, evolve: bool = False) -> None:
        """Commit rows (None: none, in the table's columns) to the table, which is there; with a record, it and its
        transaction. Delta passes over a transaction whose number the table has. OtherColumns: the rows do not fit."""
        table = self._spark.table(self.sql)
        frame = table.limit(0) if rows is None else rows
        # Others may have changed the columns since the start, and Spark would make the values fit.
        check_columns(table.schema, frame.schema, self.where, evolve=evolve)
        writer = frame.writeTo(self.sql).option("mergeSchema", evolve)
        if record is not None:
            writer = writer.option("txnAppId", record.transaction_id).option("txnVersion", record.sequence)
            writer = writer.option("userMetadata", record.to_json())
        writer.append()


def _pairs(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{text_in_sql(name)} = {text_in_sql(value)}" for name, value in properties.items())


def writing_confs(record: SinkRecord | None = None) -> dict[str, str | None]:
    """All that a session says of each write to Delta in it that says nothing else: the record and its transaction, or
    nothing. What a user's own session says there would be said of the job's writes too."""
    stated: tuple[str | None, ...] = (None, None, None)
    if record is not None:
        stated = record.transaction_id, str(record.sequence), record.to_json()
    names = ("write.txnAppId", "write.txnVersion", "commitInfo.userMetadata")
    named = {f"spark.databricks.delta.{name}": value for name, value in zip(names, stated, strict=True)}
    # A table may be read as it was before others wrote.
    fixed = {"schema.autoMerge.enabled": "false", "stalenessLimit": "0"}
    # Of files that OPTIMIZE puts together; by default it rewrites all below 1 GB each time.
    fixed |= dict.fromkeys(("optimize.minFileSize", "optimize.maxFileSize"), str(128 << 20))
    # The rows of a MERGE are kept while they are counted, which Delta notices with another setting.
    fixed["merge.materializeSource"] = "auto"
    # A file that cannot be read for a moment would leave a table that is rewritten, or be passed over by a MERGE.
    files = dict.fromkeys(("spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles"), "false")
    # A time in a partition's folder says its zone.
    fixed["write.utcTimestampPartitionValues"] = "true"
    # Days before 1582 are those of today's calendar, and times those that others than Spark can read.
    kinds = ("datetimeRebaseModeInWrite", "int96RebaseModeInWrite")
    files |= {f"spark.sql.parquet.{kind}": "CORRECTED" for kind in kinds}
    files["spark.sql.parquet.outputTimestampType"] = "TIMESTAMP_MICROS"
    # Rows may lack columns that are computed, as marks of bad records do.
    fixed["generatedColumn.allowNullableIngest.enabled"] = "true"
    # Otherwise nobody sees that an error is a bad record's.
    files["spark.sql.legacy.raiseErrorWithoutErrorClass"] = "false"
    # Columns that rows are grouped by come out too.
    files["spark.sql.retainGroupColumns"] = "true"
    return named | {f"spark.databricks.delta.{name}": value for name, value in fixed.items()} | files
