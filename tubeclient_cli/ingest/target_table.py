"""The Delta table that the job's sink writes to: what the sink asks of it, and Spark's way to do it."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from offsets_store.errors import display_uri
from tubeclient.errors import ConfigurationError
from tubeclient_cli.ingest.sink_history import Commit
from tubeclient_cli.ingest.sink_record import SinkRecord
from tubeclient_cli.ingest.target_rules import TargetRules

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SparkTargetTable", "TableVersion", "TargetTable", "Transactions"]

_FORGETS: Final = "delta.setTransactionRetentionDuration"

_LAST_COMMIT: Final = "spark.databricks.delta.lastCommitVersionInSession"
"""The session conf in which Delta reports the version it has just written; it writes none if it skips a transaction."""


class TableVersion(NamedTuple):
    """Which table, and which version of it. The number alone says little: a table may be deleted and made anew."""

    table_id: str
    """The id that Delta gave the table."""
    number: int


class Transactions(NamedTuple):
    """What the newest version says of one transaction id."""

    last: int | None
    """Its last number; None if there is none."""
    may_forget: bool
    """Whether the table forgets transactions, so that None may be wrong."""


class TargetTable(Protocol):
    """One Delta table; the first append creates it. Errors are Spark's."""

    def newest(self) -> TableVersion | None:
        """The newest version; None if there is no table."""

    def rules(self) -> TargetRules:
        """The table's columns, and what it refuses."""

    def history(self, limit: int) -> list[Commit]:
        """The last commits of the table, which is there: newest first, at most `limit`."""

    def removing(self, versions: Collection[int]) -> set[int]:
        """Those of `versions` whose commits removed data by the table's log, or may have: where it no longer says."""

    def transactions(self, transaction_id: str) -> Transactions:
        """What the table, which is there, knows of a transaction id."""

    def append(self, rows: DataFrame, record: SinkRecord, *, evolve: bool) -> int | None:
        """Commit rows with their record and its transaction. Returns the version that it wrote; None if Delta skipped
        the transaction, because the table has this number already."""


class SparkTargetTable:
    """The Delta table at `path`, through Spark."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark
        self._path = path

    def newest(self) -> TableVersion | None:
        table = self._table()
        if table is None:
            return None
        snapshot = _snapshot(table)
        return TableVersion(str(snapshot.metadata().id()), int(snapshot.version()))

    def rules(self) -> TargetRules:
        from pyspark.sql.types import StructType

        if (table := self._table()) is None:
            return TargetRules()
        found = json.loads(_snapshot(table).metadata().json())["metaData"]
        return TargetRules.of(StructType.fromJson(json.loads(found["schemaString"])), found["configuration"])

    def history(self, limit: int) -> list[Commit]:
        columns = ("version", "operation", "operationParameters", "operationMetrics", "userMetadata", "isBlindAppend")
        table = self._table()
        rows = [] if table is None else table.history(limit).select(*columns).collect()
        return [
            Commit(
                int(row.version),
                row.operation or "",
                row.operationParameters or {},
                row.operationMetrics or {},
                self._record(int(row.version), row.userMetadata),
                # Not by its name: this is what Delta saw of the commit's files.
                removes=not row.isBlindAppend,
            )
            for row in sorted(rows, key=lambda row: int(row.version), reverse=True)
        ]

    def removing(self, versions: Collection[int]) -> set[int]:
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as F

        log = f"{self._path.rstrip('/')}/_delta_log"
        reader = self._spark.read.schema("remove STRUCT<dataChange: BOOLEAN>").option("__globPaths__", "false")
        try:
            actions = reader.json([f"{log}/{version:020}.json" for version in versions])
            removes = F.expr("bool_or(remove IS NOT NULL AND coalesce(remove.dataChange, true))").alias("removes")
            found = actions.groupBy(F.col("_metadata.file_name").alias("entry")).agg(removes).collect()
        except PySparkException:
            return set(versions)
        return set(versions).difference(int(row.entry[:20]) for row in found if not row.removes)

    def _record(self, version: int, metadata: str | None) -> SinkRecord | None:
        try:
            return SinkRecord.parse(metadata)
        except ConfigurationError as error:
            raise ConfigurationError(
                f"version {version} of {display_uri(self._path)}: {error}", condition=error.condition
            ) from None

    def transactions(self, transaction_id: str) -> Transactions:
        table = self._table()
        kept = _snapshot(table).transactions().get(transaction_id)
        if kept.isDefined():
            return Transactions(int(kept.get()), may_forget=False)
        # With this property Delta forgets transactions.
        return Transactions(None, may_forget=_FORGETS in table.detail().select("properties").collect()[0]["properties"])

    def append(self, rows: DataFrame, record: SinkRecord, *, evolve: bool) -> int | None:
        conf = rows.sparkSession.conf
        conf.unset(_LAST_COMMIT)
        (
            rows.write.format("delta")
            .mode("append")
            .option("mergeSchema", evolve)
            .option("txnAppId", record.transaction_id)
            .option("txnVersion", record.sequence)
            .option("userMetadata", record.to_json())
            .save(self._path)
        )
        written = conf.get(_LAST_COMMIT, None)
        return None if written is None else int(written)

    def _table(self) -> Any:
        from delta.tables import DeltaTable

        if not DeltaTable.isDeltaTable(self._spark, self._path):
            return None
        return DeltaTable.forPath(self._spark, self._path)


def _snapshot(table: Any) -> Any:
    return table._jdt.table().update()
