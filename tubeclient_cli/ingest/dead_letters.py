"""The dead-letter table: the bad records of one or many jobs, in Delta.

A batch's bad records are first staged: written as Parquet to a folder in the table's, where readers do not see them.
Once the batch is in the target they are appended with a transaction of the group and the target, whose version is the
number of the target's commit. So they are appended once, whoever does it and however often.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from offsets_store.errors import display_uri
from spark_source.options.row_options import RowOptions
from spark_source.read.schema import spark_schema
from tubeclient.errors import ConfigurationError
from tubeclient_cli.ingest.letter_states import BAD, RETRIED, UNDONE
from tubeclient_cli.ingest.record_format import BAD_REASON, UNREAD
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


class MissingDeadLetters(ConfigurationError):
    """Bad records of a batch in the target are neither in the dead-letter table nor staged."""


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
        whole = str(self._files.makeQualified(self._folder.getParent()).toString())
        scheme, mark, rest = whole.partition("://")
        host, slash, path = rest.partition("/")
        user, at, place = host.rpartition("@")
        return f"{scheme}{mark}{place}{slash}{path}" if at and ":" in user else whole

    def exists(self) -> bool:
        from delta.tables import DeltaTable

        return DeltaTable.isDeltaTable(self._spark, self._path)

    def create(self) -> None:
        """Create the table if it is missing. ConfigurationError if it has other columns."""
        from pyspark.errors import PySparkException

        schema = _table_schema()
        if not self.exists():
            try:
                self._spark.createDataFrame([], schema).write.format("delta").mode("append").save(self._path)
            except PySparkException:
                # Another run may have created it meanwhile.
                if not self.exists():
                    raise
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

    def letters(self, target_id: str, columns: Sequence[str], topics: Sequence[str], reason: str | None) -> DataFrame:
        """The group's bad records of the topics with these columns of the source, and `LETTER_ID`; those whose messages
        the source could not read are left out. `reason` is a part of the reason; None chooses all."""
        from pyspark.sql import functions as F

        rows = self._rows().where(self._own(target_id) & (F.col("state") == BAD) & ~F.col(UNREAD))
        rows = rows.where(F.col("topic").isin(*topics))
        if reason is not None:
            rows = rows.where(F.contains(F.col(_REASON), F.lit(reason)))
        return rows.select(*columns, F.col(_ID).alias(LETTER_ID))

    def is_published(self, record: SinkRecord, target_id: str) -> bool:
        """Whether the table has what the target's commit `record` staged for it."""
        from delta.tables import DeltaTable
        from pyspark.sql import functions as F

        if not self.exists():
            return False
        sequence = record.sequence
        if record.bad is not None and record.bad.retried:
            known = F.array_contains("retries", F.lit(sequence).cast("long"))
            return self._rows().where(self._own(target_id) & known).limit(1).count() > 0
        snapshot = DeltaTable.forPath(self._spark, self._path)._jdt.table().update()
        version = snapshot.transactions().get(self._transaction_id(target_id))
        return bool(version.isDefined()) and int(version.get()) >= sequence

    def has_staged(self, folder: str) -> bool:
        """Whether there is this staged folder."""
        return bool(self._files.exists(self._path_of(folder)))

    def publish(self, record: SinkRecord, bad: StagedBad, target_id: str) -> None:
        """Append the staged bad records of the target's commit `record`, or say of the staged ids that it has retried
        them; if that is not done yet."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as F

        if bad.folder is None or self.is_published(record, target_id):
            return
        try:
            schema = _ids_schema() if bad.retried else _staged_schema()
            staged = self._spark.read.schema(schema).option("__globPaths__", "false").parquet(self._staged(bad.folder))
            if (count := staged.count()) != bad.count:
                raise MissingDeadLetters(
                    f"the folder {display_uri(self._staged(bad.folder))} has {count} of the {bad.count} bad records"
                    " that the target's newest commit names. Was it changed? Put it back as it was; or remove it, and"
                    " go on without those records with --starting-offsets target"
                )
            if bad.retried:
                self._set_retried(staged, record.sequence)
                return
            rows = staged.select(
                F.lit(record.consumer_group).alias("consumerGroup"),
                F.lit(target_id).alias("targetId"),
                F.lit(record.sequence).cast("long").alias("sequence"),
                F.lit(record.query_id).alias("queryId"),
                F.lit(record.batch_id).cast("long").alias("batchId"),
                F.lit(BAD).alias("state"),
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
        except (PySparkException, Py4JError, MissingDeadLetters):
            # Another run of the group may do the same, and remove the folder when it has.
            if not self.is_published(record, target_id):
                raise

    def _set_retried(self, ids: DataFrame, sequence: int) -> None:
        from delta.tables import DeltaTable
        from pyspark.sql import functions as F

        number = F.lit(sequence).cast("long")
        (
            DeltaTable.forPath(self._spark, self._path)
            .alias("letters")
            .merge(ids.alias("ids"), f"letters.{_ID} = ids.{_ID}")
            .whenMatchedUpdate(
                ~F.array_contains("letters.retries", number),
                {"state": F.lit(RETRIED), "retries": F.array_append("letters.retries", number)},
            )
            .execute()
        )

    def mark(self, state: SinkState, target_id: str) -> None:
        """Set which records of the group count, by what RESTORE made of the target: only those whose batch is in it.

        Numbers past those in `state` are another run's, and stay.
        """
        from delta.tables import DeltaTable
        from pyspark.sql import functions as F

        record = state.record
        if (record is None and not state.is_whole) or not self.exists():
            return

        def in_target(sequence: Column) -> Column:
            has = sequence <= (record.sequence if record is not None else 0)
            for first, last in record.undone if record is not None else ():
                has = has & ~sequence.between(first, last)
            return has

        known_from = record.known_from if record is not None else 1
        sequence, retries = F.col("sequence"), F.col("retries")
        told = sequence.between(known_from, state.sequence) & ~F.exists(retries, lambda one: one > state.sequence)
        now = F.when(~in_target(sequence), UNDONE).when(F.exists(retries, in_target), RETRIED).otherwise(BAD)
        wrong = self._own(target_id) & told & (F.col("state") != now)
        if self._rows().where(wrong).limit(1).count():
            DeltaTable.forPath(self._spark, self._path).update(wrong, {"state": now})

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
