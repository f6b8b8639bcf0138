"""The dead-letter table: the bad records of one or many jobs, in Delta.

A batch's bad records are first staged: written as Parquet to a folder in the table's, where readers do not see them.
Once the batch is in the target they are appended with a transaction of the group and the target, whose version is the
number of the target's commit. So they are appended once, whoever does it and however often. What a retry moved is
marked with the same transaction.

Which rows count follows from the target. A second transaction, whose version is the target's, keeps a run that looked
earlier from overruling one that looked later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from offsets_store.delta_spark import is_conflict, without_defaults
from offsets_store.errors import display_uri
from spark_source.options.row_options import RowOptions
from spark_source.options.source_options import SourceOptions
from spark_source.read.schema import spark_schema
from spark_source.session_confs import session_confs
from spark_source.typed.record_format import BAD_REASON, UNREAD
from tubeclient.errors import ConfigurationError
from tubeclient.printable import without_passwords
from tubeclient_cli.ingest.letter_states import BAD, RETRIED, UNDONE, judgement
from tubeclient_cli.ingest.sink_history import SinkState
from tubeclient_cli.ingest.sink_record import SinkRecord
from tubeclient_cli.ingest.staged import STAGED, StagedBad

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["LETTER_ID", "DeadLetters", "MissingDeadLetters"]

LETTER_ID: Final = "__letterId"
"""The column that names a row of the table, beside the source's columns of a record that is tried again."""
_ID: Final = "id"
"""The same column in the table."""

_REASON: Final = "reason"

_TRIES: Final = 10
"""How often a change of the table is tried. Each time that it fails, another writer's has succeeded."""
_WRONG_PROPERTIES: Final = {
    "delta.appendOnly": "so the states of its rows could not change after a retry or a RESTORE of the target",
    "delta.setTransactionRetentionDuration": "with which Delta forgets which bad records are there already",
}
_TXN_APP_ID: Final = "spark.databricks.delta.write.txnAppId"
_TXN_VERSION: Final = "spark.databricks.delta.write.txnVersion"
"""For UPDATE and MERGE, which have no options."""


class MissingDeadLetters(ConfigurationError):
    """Bad records of a batch in the target are neither in the dead-letter table nor staged."""

    condition = "BAD_RECORDS_MISSING"


class DeadLetters:
    """The dead-letter table at `path`, for one consumer group; many may share it."""

    def __init__(self, spark: SparkSession, path: str, consumer_group: str) -> None:
        self._spark = spark
        self._path = path
        self._consumer_group = consumer_group
        # PySpark's type stubs have no JVM.
        jvm: Any = spark._jvm
        self._jvm = jvm
        hadoop_conf: Any = spark.sparkContext._jsc.hadoopConfiguration()
        self._folder = jvm.org.apache.hadoop.fs.Path(path, STAGED)
        self._files = self._folder.getFileSystem(hadoop_conf)

    @property
    def where(self) -> str:
        """The table's path, for messages."""
        return display_uri(self._path)

    @property
    def location(self) -> str:
        """The table's whole path, for the target's commits, which others can read: without a password in it."""
        return without_passwords(str(self._files.makeQualified(self._folder.getParent()).toString()))

    def exists(self) -> bool:
        from delta.tables import DeltaTable

        return DeltaTable.isDeltaTable(self._spark, self._path)

    def create(self) -> None:
        """Create the table if it is missing. Raises what `check` raises."""
        from pyspark.errors import PySparkException

        schema = _table_schema()
        if not self.exists():
            try:
                with without_defaults(self._spark):
                    self._spark.createDataFrame([], schema).write.format("delta").mode("append").save(self._path)
            except PySparkException:
                # Another run may have created it meanwhile.
                if not self.exists():
                    raise
        self.check()

    def check(self) -> None:
        """ConfigurationError if the table has other columns, or properties with which nothing can be promised."""
        from delta.tables import DeltaTable

        schema = _table_schema()
        detail = DeltaTable.forPath(self._spark, self._path).detail().select("properties").collect()
        properties = detail[0]["properties"]
        for name, why in _WRONG_PROPERTIES.items():
            if properties.get(name, "false") != "false":
                raise ConfigurationError(
                    f"the table {self.where} has the property {name}, {why}. Remove it: ALTER TABLE"
                    f" delta.`{self.where}` UNSET TBLPROPERTIES ('{name}')"
                )
        have = {field.name: field.dataType for field in self._rows().schema}
        wrong = [field.name for field in schema if have.get(field.name) != field.dataType]
        if wrong:
            raise ConfigurationError(
                f"the Delta table {self.where} is not a table of bad records: it has no column {wrong[0]} of that"
                " table's type. Give --bad-records a table of its own"
            )

    def stage(self, parsed: DataFrame, folder: str) -> None:
        """Write the bad rows of a parsed batch to a staged folder."""
        from pyspark.sql import functions as F

        bad = parsed.where(F.col(BAD_REASON).isNotNull())
        columns = [
            F.col(field.name) if field.name in parsed.columns else F.lit(None).cast(field.dataType).alias(field.name)
            for field in _source_schema()
        ]
        staged = bad.select(
            *columns,
            F.col(BAD_REASON).alias(_REASON),
            F.current_timestamp().alias("time"),
            F.uuid().alias(_ID),
            F.col(UNREAD).alias(UNREAD),
        )
        staged.write.parquet(self._staged(folder))

    def stage_retried(self, parsed: DataFrame, folder: str) -> None:
        """Write the ids of the good rows of parsed letters to a staged folder."""
        from pyspark.sql import functions as F

        ids = parsed.where(F.col(BAD_REASON).isNull()).select(F.col(LETTER_ID).alias(_ID))
        ids.write.parquet(self._staged(folder))

    def letters(self, target_id: str, options: SourceOptions, reason: str | None, *, unread: bool = False) -> DataFrame:
        """The group's bad records of what `options` read, with the source's columns and `LETTER_ID`: those whose
        messages the source could read, or with `unread` the others. `reason` is a part of the reason; None chooses
        all."""
        from pyspark.sql import functions as F

        def picks(column: str, names: Iterable[str]) -> Column:
            # Of a message that the source could not read, neither stream nor tag is known.
            return F.coalesce(F.col(column).isin(*names), F.lit(unread))

        rows = self._rows().where(self._own(target_id) & (F.col("state") == BAD) & (F.col(UNREAD) == F.lit(unread)))
        rows = rows.where(F.col("topic").isin(*options.topics))
        if options.streams:
            rows = rows.where(picks("inlongStreamId", options.streams))
        for topic, tags in options.filters.items():
            rows = rows.where((F.col("topic") != topic) | picks("messageType", tags))
        if reason is not None:
            rows = rows.where(F.contains(F.lower(_REASON), F.lower(F.lit(reason))))
        columns = [name for name in spark_schema(options).names if name != BAD_REASON]
        return rows.select(*columns, F.col(_ID).alias(LETTER_ID))

    def published(self, target_id: str) -> int:
        """The number of the target's newest commit whose staged folder was published; -1 if there is none."""
        return self._last_version(self._transaction_id(target_id))

    def has_staged(self, folder: str) -> bool:
        """Whether there is this staged folder."""
        return bool(self._files.exists(self._path_of(folder)))

    def publish(self, record: SinkRecord, bad: StagedBad, target_id: str, *, undone: bool = False) -> None:
        """Append the staged bad records of the target's commit `record`, or say of the staged ids that it has retried
        them; if that is not done yet. `undone`: RESTORE took the commit out."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        def attempt() -> None:
            if self.published(target_id) >= record.sequence:
                return
            try:
                self._publish(record, bad, target_id, undone=undone)
            except (PySparkException, Py4JError, MissingDeadLetters):
                # Another run of the group may do the same, and remove the folder when it has.
                if self.published(target_id) < record.sequence:
                    raise

        _until_alone(attempt)

    def _publish(self, record: SinkRecord, bad: StagedBad, target_id: str, *, undone: bool) -> None:
        from pyspark.sql import functions as F

        place = self._staged(bad.folder or "")
        schema = _ids_schema() if bad.retried else _staged_schema()
        staged = self._spark.read.schema(schema).option("__globPaths__", "false").parquet(place)
        if (count := staged.count()) != bad.count:
            raise MissingDeadLetters(
                f"the folder {display_uri(place)} has {count} of the {bad.count} bad records that the target's newest"
                " commit names. Was it changed? Put it back as it was; or remove it, and go on without those records"
                " with --starting-offsets target"
            )
        if bad.retried:
            self._set_retried(staged, record.sequence, target_id, undone=undone)
            return
        rows = staged.select(
            F.lit(record.consumer_group).alias("consumerGroup"),
            F.lit(target_id).alias("targetId"),
            F.lit(record.sequence).cast("long").alias("sequence"),
            F.lit(record.query_id).alias("queryId"),
            F.lit(record.batch_id).cast("long").alias("batchId"),
            F.lit(UNDONE if undone else BAD).alias("state"),
            F.array().cast("array<bigint>").alias("retries"),
            *_staged_schema().names,
        )
        (
            rows.write.format("delta")
            .mode("append")
            .option("txnAppId", self._transaction_id(target_id))
            .option("txnVersion", record.sequence)
            .save(self._path)
        )

    def _set_retried(self, ids: DataFrame, sequence: int, target_id: str, *, undone: bool) -> None:
        from delta.tables import DeltaTable
        from pyspark.sql import functions as F

        retries = F.array_append("letters.retries", F.lit(sequence).cast("long"))
        merge = (
            DeltaTable.forPath(self._spark, self._path)
            .alias("letters")
            .merge(ids.alias("ids"), f"letters.{_ID} = ids.{_ID}")
            .whenMatchedUpdate(set={"retries": retries, **({} if undone else {"state": F.lit(RETRIED)})})
        )
        with self._transaction(self._transaction_id(target_id), sequence):
            merge.execute()

    def mark(self, state: SinkState, target_id: str) -> None:
        """Set the states of the group's rows by what RESTORE made of the target. Does nothing if a run that looked at
        the target later, or at the same version of it, has done so."""
        from delta.tables import DeltaTable
        from pyspark.sql import functions as F

        right = judgement(state)
        if right is None or state.version is None or not self.exists():
            return
        looked_at = state.version
        name = f"{self._transaction_id(target_id)}:states"
        wrong = self._own(target_id) & right.is_known & (F.col("state") != right.state)

        def attempt() -> None:
            # A run that looked before RESTORE must find that another one looked after it, also where no row changes.
            if self._last_version(name) < looked_at and (
                state.is_restored or self._rows().where(wrong).limit(1).count()
            ):
                with self._transaction(name, looked_at):
                    DeltaTable.forPath(self._spark, self._path).update(wrong, {"state": right.state})

        _until_alone(attempt)

    def staged(self) -> list[str]:
        """The names of all staged folders."""
        if not self._files.exists(self._folder):
            return []
        return [str(status.getPath().getName()) for status in self._files.listStatus(self._folder)]

    def remove(self, folder: str) -> None:
        """Remove a staged folder, if it is there."""
        self._files.delete(self._path_of(folder), True)

    def _path_of(self, *names: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._folder, "/".join(names))

    def _staged(self, folder: str) -> str:
        return str(self._path_of(folder).toString())

    def _own(self, target_id: str) -> Column:
        from pyspark.sql import functions as F

        return (F.col("consumerGroup") == self._consumer_group) & (F.col("targetId") == target_id)

    def _rows(self) -> DataFrame:
        return self._spark.read.format("delta").load(self._path)

    def _transaction_id(self, target_id: str) -> str:
        return f"tubeclient:{self._consumer_group}:{target_id}"

    def _last_version(self, transaction_id: str) -> int:
        """The newest version of a transaction; -1 if there is none."""
        from delta.tables import DeltaTable

        if not self.exists():
            return -1
        version = DeltaTable.forPath(self._spark, self._path)._jdt.table().update().transactions().get(transaction_id)
        return int(version.get()) if version.isDefined() else -1

    def _transaction(self, transaction_id: str, version: int) -> AbstractContextManager[None]:
        """Within it, UPDATE and MERGE are this transaction: Delta passes over one that has been, or is behind."""
        return session_confs(self._spark, {_TXN_APP_ID: transaction_id, _TXN_VERSION: str(version)})


def _until_alone(change: Callable[[], None]) -> None:
    """Do `change` again as long as another writer of the table comes first."""
    for left in reversed(range(_TRIES)):
        try:
            change()
            return
        except Exception as error:
            if left == 0 or not is_conflict(error):
                raise


@cache
def _source_schema() -> StructType:
    """Whatever columns the source may have, for a second try with another format."""
    return spark_schema(RowOptions(payload="inlong", include_attributes=True))


@cache
def _staged_schema() -> StructType:
    from pyspark.sql.types import BooleanType, StringType, StructField, StructType, TimestampType

    texts = StructField(_REASON, StringType()), StructField("time", TimestampType())
    return StructType([*_source_schema(), *texts, *_ids_schema(), StructField(UNREAD, BooleanType())])


@cache
def _ids_schema() -> StructType:
    from pyspark.sql.types import StringType, StructField, StructType

    return StructType([StructField(_ID, StringType())])


@cache
def _table_schema() -> StructType:
    from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

    numbers, texts = ("sequence", "batchId"), ("consumerGroup", "targetId", "sequence", "queryId", "batchId", "state")
    own = [StructField(name, LongType() if name in numbers else StringType()) for name in texts]
    return StructType([*own, StructField("retries", ArrayType(LongType())), *_staged_schema()])
