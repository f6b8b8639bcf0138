"""The offsets table through delta-spark, for code in the driver. Tables of a catalog can only be written this way.

A commit takes a few Spark jobs, where delta-rs takes milliseconds. The Python package delta-spark is not needed: a
session with Delta's jars and confs is enough. Log entries are cleaned up by Delta; old files need a VACUUM.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from offsets_store.delta_form import NAMES, check_schema, rows_from_arrow, rows_to_arrow
from offsets_store.errors import OffsetsTableError, display_uri, scrub
from offsets_store.progress import GroupKey
from offsets_store.rows import Row, checked
from offsets_store.schema import COLUMNS, PARTITION_COLUMN, TABLE_PROPERTIES
from offsets_store.storage import Conflict
from tubeclient.names import GroupName

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["DeltaSparkStorage", "is_conflict", "without_defaults"]

_MISSING: Final = {
    "DELTA_MISSING_DELTA_TABLE",
    "DELTA_TABLE_NOT_FOUND",
    "PATH_NOT_FOUND",
    "TABLE_OR_VIEW_NOT_FOUND",
    "SCHEMA_NOT_FOUND",
}
# Delta's error classes for a conflicting concurrent commit.
_CONFLICTS: Final = ("DELTA_CONCURRENT_", "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED")
_DEFAULTS: Final = "spark.databricks.delta.properties.defaults."
# How many commits to look back for ours: other groups may have committed after it.
_LOOK_BACK: Final = (5, 500)


def is_conflict(error: Exception) -> bool:
    """Whether a commit through delta-spark failed because another writer's came first."""
    from pyspark.errors import PySparkException

    condition = error.getCondition() if isinstance(error, PySparkException) else None
    return any(mark in (condition or str(error)) for mark in _CONFLICTS)


@contextlib.contextmanager
def without_defaults(spark: SparkSession) -> Iterator[None]:
    """Within it a new table has none of the session's properties for new tables, with which we may not write it."""
    confs = {name: value for name, value in spark.conf.getAll.items() if name.startswith(_DEFAULTS)}
    try:
        for name in confs:
            spark.conf.unset(name)
        yield
    finally:
        for name, value in confs.items():
            spark.conf.set(name, value)


class DeltaSparkStorage:
    """A Delta table in the session `spark`; the first write creates it. See `Storage`.

    `table` is a path or URI (it has a slash) or a catalog name such as `catalog.schema.table`. Put a catalog name that
    has a slash in backquotes. Without a JVM, as under Spark Connect, only the rows tell the group's last sequence: do
    not delete rows by hand there.

    Each commit carries one Delta transaction id, the group's. delta-spark skips a commit whose sequence another writer
    of the group has used, whatever its topics, and refuses a commit that such a writer overtakes.
    """

    def __init__(self, spark: SparkSession, table: str) -> None:
        self._spark = spark
        self._table = table
        escaped = table.replace("`", "``")
        self._name = f"delta.`{escaped}`" if "/" in table and not table.startswith("`") else table
        self._snapshot: Any = None
        self._checked = False

    def __repr__(self) -> str:
        return f"DeltaSparkStorage({display_uri(self._table)!r})"

    def rows(self, consumer_group: GroupName) -> list[Row]:
        with self._explained("read"):
            from pyspark.sql import functions as F

            if self._frame() is None:
                self._snapshot = None
                return []
            # Transactions before rows: if a commit comes between the two reads, the rows show it.
            self._snapshot = self._newest_snapshot()
            frame = self._spark.table(self._name)
            found = frame.where(F.col(PARTITION_COLUMN) == F.lit(consumer_group)).select(*NAMES).toArrow()
            return checked(rows_from_arrow(found))

    def transaction_version(self, key: GroupKey) -> int | None:
        with self._explained("read"):
            if self._snapshot is None:
                return None
            found = self._snapshot.transactions().get(key.group_transaction_id)
            return int(found.get()) if found.isDefined() else None

    def replace(self, key: GroupKey, rows: Sequence[Row], sequence: int) -> None:
        from pyspark.sql import functions as F

        token = uuid.uuid4().hex
        own_group = F.col(PARTITION_COLUMN) == F.lit(key.consumer_group)
        with self._explained("write"):
            if self._frame() is None:
                self._create()
            writer = self._data(rows).writeTo(self._name)
            for name, value in {
                "txnAppId": key.group_transaction_id,
                "txnVersion": str(sequence),
                "userMetadata": json.dumps({"sequence": sequence, "commit": token}),
            }.items():
                writer = writer.option(name, value)
            writer.overwrite(own_group & (F.col("topicSet") == F.lit(key.topic_set)))
            # If the sequence was taken, delta-spark silently wrote nothing.
            if not self._committed(token):
                raise Conflict(f"another writer of {key} committed sequence {sequence} or a later one")

    def _frame(self) -> DataFrame | None:
        """The table's newest version; None if there is no table. The columns are checked once."""
        from pyspark.errors import PySparkException

        try:
            frame = self._spark.table(self._name)
            if not self._checked:
                detail = self._spark.sql(f"DESCRIBE DETAIL {self._name}").select("partitionColumns").collect()
                found = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
                check_schema(found, detail[0]["partitionColumns"], display_uri(self._table))
                self._checked = True
        except PySparkException as error:
            if error.getCondition() in _MISSING:
                self._checked = False
                return None
            raise
        return frame

    def _data(self, rows: Sequence[Row]) -> DataFrame:
        return self._spark.createDataFrame(rows_to_arrow(rows)).coalesce(1)

    def _create(self) -> None:
        columns = ", ".join(f"{c.name} {c.type}{'' if c.nullable else ' NOT NULL'}" for c in COLUMNS)
        properties = ", ".join(f"'{name}' = '{value}'" for name, value in TABLE_PROPERTIES.items())
        with without_defaults(self._spark):
            self._spark.sql(
                f"CREATE TABLE IF NOT EXISTS {self._name} ({columns}) USING delta PARTITIONED BY ({PARTITION_COLUMN})"
                f" COMMENT 'Offsets of TubeMQ consumer groups' TBLPROPERTIES ({properties})"
            )

    def _committed(self, token: str) -> bool:
        for limit in _LOOK_BACK:
            history = self._spark.sql(f"DESCRIBE HISTORY {self._name} LIMIT {limit}")
            found = history.select("userMetadata").collect()
            if any(token in (row["userMetadata"] or "") for row in found):
                return True
            if len(found) < limit:
                break
        return False

    def _newest_snapshot(self) -> Any:
        """Delta's JVM object for the table's newest version; None without a JVM, as under Spark Connect."""
        jvm = getattr(self._spark, "_jvm", None)
        if jvm is None:
            return None
        return jvm.io.delta.tables.DeltaTable.forName(self._spark._jsparkSession, self._name).table().update()

    @contextlib.contextmanager
    def _explained(self, action: str) -> Iterator[None]:
        try:
            yield
        except _errors() as error:
            text = scrub(str(error), {}, self._table)
            if is_conflict(error):
                raise Conflict(text) from None
            # No "from error": its text may hold a URI with its secrets.
            raise OffsetsTableError(
                f"could not {action} the offsets table {display_uri(self._table)}: {type(error).__name__}: {text}."
                " Check the name, the session's Delta extension and catalog, and its permissions"
            ) from None


def _errors() -> tuple[type[Exception], ...]:
    """What a session raises. A client of Spark Connect need not have Py4J."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JError
    except ModuleNotFoundError:
        return PySparkException, OSError
    return PySparkException, Py4JError, OSError
