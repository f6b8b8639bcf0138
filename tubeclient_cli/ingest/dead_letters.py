"""The dead-letter table: the bad records of one or many jobs, in Delta.

A batch's bad records are first staged: written as Parquet to a folder in the table's, where readers do not see them.
Once the batch is in the target they are appended with a transaction of the group and the target, whose version is the
number of the target's commit. So they are appended once, whoever does it and however often.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from offsets_store.errors import display_uri
from spark_source.options.row_options import RowOptions
from spark_source.read.schema import spark_schema
from tubeclient.errors import ConfigurationError
from tubeclient_cli.ingest.record_format import BAD_REASON
from tubeclient_cli.ingest.sink_history import SinkState
from tubeclient_cli.ingest.sink_record import SinkRecord
from tubeclient_cli.ingest.staged import STAGED, StagedBad

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["BAD", "UNDONE", "DeadLetters", "MissingDeadLetters"]

BAD: Final = "bad"
"""State of a record that the target does not have."""
UNDONE: Final = "undone"
"""State of a record whose batch RESTORE took out of the target: the job reads it again, or has."""

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
        staged = bad.select(*columns, F.col(BAD_REASON).alias(_REASON), F.current_timestamp().alias("time"))
        staged.write.parquet(self._staged(folder))

    def is_published(self, sequence: int, target_id: str) -> bool:
        """Whether the bad records of the group's commit `sequence` to the target are in the table."""
        from delta.tables import DeltaTable

        if not self.exists():
            return False
        snapshot = DeltaTable.forPath(self._spark, self._path)._jdt.table().update()
        version = snapshot.transactions().get(self._transaction_id(target_id))
        return bool(version.isDefined()) and int(version.get()) >= sequence

    def has_staged(self, folder: str) -> bool:
        """Whether there is this staged folder, complete."""
        return bool(self._files.exists(self._path_of(folder, "_SUCCESS")))

    def publish(self, record: SinkRecord, bad: StagedBad, target_id: str) -> None:
        """Append the staged bad records of the target's commit `record`, if they are not in the table yet."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as F

        if bad.folder is None or self.is_published(record.sequence, target_id):
            return
        try:
            staged = self._spark.read.schema(_staged_schema()).parquet(self._staged(bad.folder))
            if (count := staged.count()) != bad.count:
                raise MissingDeadLetters(
                    f"the folder {display_uri(self._staged(bad.folder))} has {count} of the {bad.count} bad records"
                    " that the target's newest commit names. Was it changed? Put it back as it was; or remove it, and"
                    " go on without those records with --starting-offsets target"
                )
            rows = staged.select(
                F.lit(record.consumer_group).alias("consumerGroup"),
                F.lit(target_id).alias("targetId"),
                F.lit(record.sequence).cast("long").alias("sequence"),
                F.lit(record.query_id).alias("queryId"),
                F.lit(record.batch_id).cast("long").alias("batchId"),
                F.lit(BAD).alias("state"),
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
            if not self.is_published(record.sequence, target_id):
                raise

    def mark(self, state: SinkState, target_id: str) -> None:
        """Set which records of the group count, by what RESTORE made of the target: only those whose batch is in it.

        Numbers past those in `state` are another run's, and stay.
        """
        from delta.tables import DeltaTable
        from pyspark.sql import functions as F

        record = state.record
        if (record is None and not state.is_whole) or not self.exists():
            return
        sequence = F.col("sequence")
        in_target: Column = sequence <= (record.sequence if record is not None else 0)
        for first, last in record.undone if record is not None else ():
            in_target = in_target & ~sequence.between(first, last)
        known_from = record.known_from if record is not None else 1
        own = (F.col("consumerGroup") == self._consumer_group) & (F.col("targetId") == target_id)
        told = own & sequence.between(known_from, state.sequence)
        wrong = told & (in_target != (F.col("state") != UNDONE))
        if self._rows().where(wrong).limit(1).count():
            now = F.when(in_target, F.lit(BAD)).otherwise(F.lit(UNDONE))
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
    from pyspark.sql.types import StringType, StructField, StructType, TimestampType

    return StructType([*_source_schema(), StructField(_REASON, StringType()), StructField("time", TimestampType())])


@cache
def _table_schema() -> StructType:
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    numbers, texts = ("sequence", "batchId"), ("consumerGroup", "targetId", "sequence", "queryId", "batchId", "state")
    own = [StructField(name, LongType() if name in numbers else StringType()) for name in texts]
    return StructType([*own, *_staged_schema()])
