"""The job's Delta table through Spark's SQL, by path or by name: what the sink asks of it. No JVM and no file call of
ours, so it is the same over Spark Connect."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from offsets_store.errors import display_uri
from spark_source.options.table_uris import table_in_sql
from tubeclient.errors import ConfigurationError
from tubeclient_ingest.history import Commit
from tubeclient_ingest.record import SinkRecord

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

__all__ = [
    "NewTable",
    "SparkTable",
    "TableDetail",
    "Target",
    "Transactions",
    "is_missing",
    "spark_errors",
    "text_in_sql",
]

_FORGETS: Final = "delta.setTransactionRetentionDuration"
_MISSING: Final = {
    "DELTA_MISSING_DELTA_TABLE",
    "DELTA_TABLE_NOT_FOUND",
    "DELTA_TABLE_ONLY_OPERATION",
    "PATH_NOT_FOUND",
    "TABLE_OR_VIEW_NOT_FOUND",
}


class TableDetail(NamedTuple):
    """What a table is."""

    table_id: str
    """The id that Delta gave it. A table may be deleted and made anew under the same path or name."""
    location: str
    columns: StructType
    properties: Mapping[str, str]


class Transactions(NamedTuple):
    """What the table says of one transaction id."""

    last: int | None
    """Its last number; None if there is none."""
    may_forget: bool
    """Whether None may be wrong."""


class NewTable(NamedTuple):
    """How a table is made that is missing."""

    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = {}


class Target(Protocol):
    """One Delta table. Errors are Spark's."""

    where: str
    """For messages."""

    def detail(self) -> TableDetail | None:
        """None if there is no table."""

    def create(self, columns: StructType, how: NewTable) -> None:
        """Make the table, unless it is there."""

    def history(self, limit: int) -> list[Commit]:
        """The last commits of the table, newest first, at most `limit`; none if there is no table."""

    def removing(self, versions: Collection[int], location: str) -> set[int]:
        """Those of `versions` whose commits removed data by the table's log, or may have: where it no longer says."""

    def transactions(self, transaction_id: str, detail: TableDetail) -> Transactions:
        """What the table knows of a transaction id."""

    def append(self, rows: DataFrame | None, record: SinkRecord, *, evolve: bool) -> None:
        """Commit rows (None: none, in the table's columns) with their record and its transaction to the table, which
        is there. Delta passes over a transaction whose number the table has."""


class SparkTable:
    """The Delta table `place`, a path or a name."""

    def __init__(self, spark: SparkSession, place: str) -> None:
        self._spark = spark
        self.sql = table_in_sql(place)
        self.where = display_uri(self.sql)

    def detail(self) -> TableDetail | None:
        from pyspark.errors import PySparkException

        try:
            found = self._spark.sql(f"DESCRIBE DETAIL {self.sql}").collect()[0]
        except PySparkException as error:
            if is_missing(error):
                return None
            if error.getCondition() == "REQUIRES_SINGLE_PART_NAMESPACE":
                raise ConfigurationError(
                    f"this session has no catalog of the name {self.where.partition('.')[0]}; SHOW CATALOGS lists them"
                ) from None
            raise
        if found.format != "delta":
            raise ConfigurationError(f"{self.where} is a table of format {found.format}, and the job writes Delta's")
        return TableDetail(
            found.id, found.location or "", self._spark.table(self.sql).schema, dict(found.properties or {})
        )

    def create(self, columns: StructType, how: NewTable) -> None:
        parts = [f"CREATE TABLE IF NOT EXISTS {self.sql} ({_ddl(columns)}) USING DELTA"]
        for words, names in (("PARTITIONED BY", how.partition_by), ("CLUSTER BY", how.cluster_by)):
            if names:
                parts.append(f"{words} ({', '.join(map(_quoted, names))})")
        if how.properties:
            given = (f"{text_in_sql(name)} = {text_in_sql(value)}" for name, value in how.properties.items())
            parts.append(f"TBLPROPERTIES ({', '.join(given)})")
        self._spark.sql(" ".join(parts)).collect()

    def history(self, limit: int) -> list[Commit]:
        from pyspark.errors import PySparkException

        columns = ("version", "operation", "operationParameters", "operationMetrics", "userMetadata", "isBlindAppend")
        try:
            rows = self._spark.sql(f"DESCRIBE HISTORY {self.sql} LIMIT {limit}").select(*columns).collect()
        except PySparkException as error:
            if is_missing(error):
                return []
            raise
        return [self._commit(row.asDict()) for row in sorted(rows, key=lambda row: int(row.version), reverse=True)]

    def removing(self, versions: Collection[int], location: str) -> set[int]:
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as F

        reader = self._spark.read.schema("remove STRUCT<dataChange: BOOLEAN>").option("__globPaths__", "false")
        try:
            actions = reader.json([f"{location.rstrip('/')}/_delta_log/{version:020}.json" for version in versions])
            removes = F.expr("bool_or(remove IS NOT NULL AND coalesce(remove.dataChange, true))").alias("removes")
            found = actions.groupBy(F.col("_metadata.file_name").alias("entry")).agg(removes).collect()
        except PySparkException:
            return set(versions)
        return set(versions).difference(int(row.entry[:20]) for row in found if not row.removes)

    def transactions(self, transaction_id: str, detail: TableDetail) -> Transactions:
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as F

        log = f"{detail.location.rstrip('/')}/_delta_log"
        numbers: list[int] = []
        try:
            for form, names in (("json", "*.json"), ("parquet", "*.checkpoint*.parquet")):
                reader = self._spark.read.format(form).schema("txn STRUCT<appId: STRING, version: BIGINT>")
                reader = reader.option("pathGlobFilter", names).option("ignoreMissingFiles", "true")
                last = reader.load(log).where(F.col("txn.appId") == transaction_id).agg(F.max("txn.version")).collect()
                numbers += [int(row[0]) for row in last if row[0] is not None]
        except PySparkException:  # a table of a catalog that hides its files
            return Transactions(None, may_forget=True)
        # With this property Delta forgets transactions.
        return Transactions(max(numbers, default=None), may_forget=_FORGETS in detail.properties)

    def append(self, rows: DataFrame | None, record: SinkRecord, *, evolve: bool) -> None:
        frame = self._spark.table(self.sql).limit(0) if rows is None else rows
        (
            frame.writeTo(self.sql)
            .option("mergeSchema", evolve)
            .option("txnAppId", record.transaction_id)
            .option("txnVersion", record.sequence)
            .option("userMetadata", record.to_json())
            .append()
        )

    def _commit(self, entry: Mapping[str, Any]) -> Commit:
        try:
            return Commit.of(entry)
        except ConfigurationError as error:
            raise ConfigurationError(
                f"version {entry['version']} of {self.where}: {error}", condition=error.condition
            ) from None


def is_missing(error: Exception) -> bool:
    """Whether Spark failed because the table is not there."""
    from pyspark.errors import PySparkException

    return isinstance(error, PySparkException) and error.getCondition() in _MISSING


def _ddl(columns: StructType) -> str:
    """As in CREATE TABLE. Spark's own `toDDL` wants a session that is active in this thread."""
    return ", ".join(f"{_quoted_part(one.name)} {_type(one.dataType)}" for one in columns)


def _type(kind: DataType) -> str:
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        return f"STRUCT<{', '.join(f'{_quoted_part(one.name)}: {_type(one.dataType)}' for one in kind)}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{_type(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"MAP<{_type(kind.keyType)}, {_type(kind.valueType)}>"
    return kind.simpleString()


def _quoted_part(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _quoted(name: str) -> str:
    return ".".join(map(_quoted_part, name.split(".")))


def text_in_sql(value: str) -> str:
    """A text as a literal of Spark's SQL, whose older versions do not take a doubled quote for one."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def spark_errors() -> tuple[type[Exception], ...]:
    """The errors of Spark, and of the way to it."""
    from pyspark.errors import PySparkException

    found: list[type[Exception]] = [PySparkException, OSError]
    # pyspark-client has no Py4J, and a classic installation perhaps no gRPC.
    with contextlib.suppress(ModuleNotFoundError):
        from py4j.protocol import Py4JError

        found.append(Py4JError)
    with contextlib.suppress(ModuleNotFoundError):
        from grpc import RpcError  # type: ignore[import-untyped]

        found.append(RpcError)
    return tuple(found)
