"""The newest state of each key: a round's changes, merged into the target.

A row has the order of its last change in `change.sequence`, and only a later change touches it. So it does not matter
how often changes come, and in which order. A deleted row is no longer there to say when; a table beside the target
remembers the keys. It is written before the target. Being early harms nothing, because what it says happened: it keeps
out older changes only.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from spark_source.session_confs import is_connect, own_session
from spark_source.typed.columns import CHANGE, LINEAGE
from tubeclient.errors import ConfigurationError
from tubeclient.records.spec import RESCUED
from tubeclient_ingest.commits.record import SinkRecord
from tubeclient_ingest.rounds import newest as changes
from tubeclient_ingest.rounds.newest import COUNT, ROW, ROW_OPERATIONS
from tubeclient_ingest.tables.spark_table import SparkTable, quoted, writing_confs
from tubeclient_ingest.tables.table_detail import TableDetail
from tubeclient_ingest.tables.target_columns import LENGTH_OF_TEXT, check_columns, lacking

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

__all__ = ["DELETES_PROPERTY", "KEY_PROPERTY", "ROW_OPERATIONS", "Changed", "Upserts", "check_key"]

KEY_PROPERTY: Final = "tubeclient.key"
"""The target's property that names the key's columns, with commas between them. A table without it is a log."""
DELETES_PROPERTY: Final = "tubeclient.deletes"
"""The target's property that has the id of its table of deletes, and behind it the ids of the targets whose rows there
count: a clone has those of the table it was made of."""
_MAPPING: Final = "delta.columnMapping.mode"
"""With it a column's name may have blanks."""
_KEY: Final = changes.KEY
_SEQUENCE: Final = f"{CHANGE}.sequence"


def check_key(target: SparkTable, detail: TableDetail, key: str) -> None:
    """Raise ConfigurationError if the target's rows are not those of a job with this `key`, written as `KEY_PROPERTY`
    has it; "" is a log's. A table without rows and without the property may become either."""
    there = detail.properties.get(KEY_PROPERTY, "")
    if there.lower() == key.lower():
        return
    if there:
        raise ConfigurationError(
            f"{target.where} has the newest state of each {there}, by its property {KEY_PROPERTY}, but the job has "
            f"{f'the key {key}' if key else 'no key'}. Use the table's key, or another target"
        )
    if not target.is_empty():
        raise ConfigurationError(
            f"{target.where} has rows, and its property {KEY_PROPERTY} is not set. If it has the newest state of each "
            f"{key}, such as after CREATE OR REPLACE TABLE, say so: ALTER TABLE {target.where} SET TBLPROPERTIES "
            f"('{KEY_PROPERTY}' = '{key}'). If its rows were appended without a key, leave key out, or use another "
            "target"
        )


class Changed(NamedTuple):
    """What a round's changes come to."""

    deletes: int
    """How many keys were deleted last."""
    others: int
    """How many rows changed none."""
    has_absent: bool
    """Whether an update does not know all columns."""
    rows: int
    """How many keys have a row."""
    values: Mapping[str, int]
    """In how many of these rows the columns asked for have a value."""


class Upserts:
    """A target with the newest state of each key, and its table of deleted keys."""

    def __init__(
        self,
        spark: SparkSession,
        target: SparkTable,
        deletes: SparkTable,
        keys: tuple[str, ...],
        consumer_group: str,
        *,
        evolve: bool,
    ) -> None:
        self._spark = spark
        self._consumer_group = consumer_group
        self._target, self._deletes = target, deletes
        self._keys = keys
        self._evolve = evolve
        self._targets: list[str] = []
        self._sequence: list[str] = []
        """The fields of the order of a change."""
        self._has_logs = False
        """Whether rows are changes of a database, which have places in logs and may lack columns."""

    def open(self, columns: StructType, target: TableDetail) -> str:
        """Make the table of deletes, for rows of these columns, or look whether it fits; and look at the `target`.
        Returns the property `DELETES_PROPERTY`. Raises ConfigurationError."""
        from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

        own_keys = [column for column in target.columns if column.name.lower() in map(str.lower, self._keys)]
        if padded := [column.name for column in own_keys if column.metadata.get(LENGTH_OF_TEXT, "").startswith("char")]:
            raise ConfigurationError(
                f"key names {padded[0]}, which is CHAR in {self._target.where}: Delta pads such values with blanks, "
                "and cannot merge rows by them. Use another key, or a target where it is STRING or VARCHAR"
            )
        names = {*map(str.lower, columns.names)}
        if strict := next(_strict(column for column in target.columns if column.name.lower() in names), None):
            raise ConfigurationError(
                f"{strict} of {self._target.where} is NOT NULL inside a column, and Spark cannot merge rows into "
                f"that. Allow nulls: ALTER TABLE {self._target.where} ALTER COLUMN {strict} DROP NOT NULL"
            )
        self._has_logs = changes.has_logs(columns)
        sequence = columns[CHANGE].dataType
        assert isinstance(sequence, StructType)
        order = sequence["sequence"].dataType
        assert isinstance(order, StructType)
        self._sequence = order.names
        own = StructType(
            [
                StructField(_KEY, StructType([columns[key] for key in self._keys])),
                StructField("sequence", order),
                *(StructField(name, StringType()) for name in ("targetId", "consumerGroup")),
                StructField("number", LongType()),
                StructField("time", TimestampType()),
            ]
        )
        detail, (known, *targets) = self._deletes.detail(), target.properties.get(DELETES_PROPERTY, "").split(" ")
        if known and (detail is None or detail.table_id != known):
            raise ConfigurationError(
                f"{self._target.where} has its deleted keys in the table {known}, by its property {DELETES_PROPERTY}, "
                f"but {self._deletes.where} is {'another one' if detail else 'not there'}. Use the target's former "
                "path or name, or move that table there too. Or continue without those keys, which lets late changes "
                f"bring deleted rows back: ALTER TABLE {self._target.where} UNSET TBLPROPERTIES ('{DELETES_PROPERTY}')"
            )
        if detail is None:
            detail = self._deletes.create(own, properties={_MAPPING: target.properties.get(_MAPPING, "none")})
        elif not known:
            self._check_owner(detail, target)
        if (there := detail.columns.simpleString().lower()) != own.simpleString().lower():
            raise ConfigurationError(
                f"{self._deletes.where}, which keeps the target's deleted keys, is {there}, but the job has "
                f"{own.simpleString()}. Use the former key, format and types, or another target"
            )
        self._targets = sorted({target.table_id, *targets})
        return " ".join([detail.table_id, *self._targets])

    def _check_owner(self, deletes: TableDetail, target: TableDetail) -> None:
        """ConfigurationError for a target that has rows and does not say whose the deleted keys are that are there."""
        ids = {row[0] for row in self._deletes.rows().select("targetId").distinct().collect()} - {target.table_id}
        if not ids or self._target.is_empty():
            return
        known = " ".join([deletes.table_id, *sorted(ids)])
        raise ConfigurationError(
            f"{self._deletes.where} has the deleted keys of a table other than {self._target.where}, which has rows. "
            "If the keys belong to it, such as after CREATE OR REPLACE TABLE, say so: ALTER TABLE "
            f"{self._target.where} SET TBLPROPERTIES ('{DELETES_PROPERTY}' = '{known}'). If not, remove the table of "
            "deleted keys"
        )

    def last_number(self, _: TableDetail) -> int:
        """The highest number for which the group has deleted keys; 0 without any."""
        from pyspark.sql import functions as F

        own = F.col("targetId").isin(*self._targets) & (F.col("consumerGroup") == self._consumer_group)
        found = self._deletes.rows().where(own).agg(F.max("number")).collect()
        return int(found[0][0] or 0)

    def last_round(self, target: TableDetail) -> int:
        """The highest number that the order of a row of the target has, whoever wrote it; 0 without any."""
        from pyspark.sql import functions as F

        if CHANGE not in target.columns.names:
            return 0
        found = self._target.rows().agg(F.max(f"{_SEQUENCE}.round")).collect()
        return int(found[0][0] or 0)

    def newest(self, rows: DataFrame) -> DataFrame:
        """The last change of each key, and one row for all that changes none."""
        return changes.newest(rows, self._keys)

    def count(self, newest: DataFrame, columns: Sequence[str] = ()) -> Changed:
        """What is in `newest`, and in its `columns`."""
        from pyspark.sql import functions as F

        change = F.col(ROW)[CHANGE]
        is_row = F.col(_KEY).isNotNull() & (change["operation"] != "delete")
        has_absent = F.lit(False)
        if self._has_logs:
            has_absent = F.coalesce(change["absent"].isNotNull() & (change["operation"] == "update"), F.lit(False))
        found = newest.agg(
            F.count_if(F.col(_KEY).isNotNull() & (change["operation"] == "delete")),
            F.sum(F.when(F.col(_KEY).isNull(), F.col(COUNT))),
            F.coalesce(F.bool_or(has_absent), F.lit(False)),
            F.count_if(is_row),
            *(F.count(F.when(is_row, F.col(ROW)[name])) for name in columns),
        ).collect()[0]
        deletes, others, absent, rows, *values = found
        return Changed(deletes or 0, others or 0, absent, rows, dict(zip(columns, values, strict=True)))

    def remember(self, newest: DataFrame, record: SinkRecord, detail: TableDetail) -> None:
        """Add the deleted keys to their table, for the target's commit `record`, which comes next."""
        from pyspark.sql import functions as F

        deleted = newest.where(f"{_KEY} IS NOT NULL AND {ROW}.{CHANGE}.operation = 'delete'")
        rows = deleted.select(
            _KEY,
            F.col(f"{ROW}.{_SEQUENCE}"),
            F.lit(detail.table_id).alias("targetId"),
            F.lit(record.consumer_group).alias("consumerGroup"),
            F.lit(record.sequence).cast("long").alias("number"),
            F.current_timestamp().alias("time"),
        )
        self._deletes.append(rows)

    def merge(self, newest: DataFrame, record: SinkRecord, *, has_absent: bool) -> None:
        """Commit the changes with their record and its transaction to the target. Delta passes over a transaction whose
        number the table has."""
        from pyspark.sql import functions as F

        # Of this group's number there may be keys of runs that died before the commit. Their messages are read again,
        # and have other places then.
        is_own = (F.col("consumerGroup") == record.consumer_group) & (F.col("number") >= record.sequence)
        deleted = self._deletes.rows().where(F.col("targetId").isin(*self._targets) & ~is_own)
        deleted = deleted.select(F.col(_KEY).alias("deletedKey"), F.col("sequence").alias("deleted"))
        is_later = F.expr(self._is_later(f"{ROW}.{_SEQUENCE}", "deleted", record))
        is_late = (F.col(_KEY) == F.col("deletedKey")) & ~is_later & (F.col(f"{ROW}.{CHANGE}.operation") != "delete")
        rows = newest.where(f"{_KEY} IS NOT NULL").join(deleted, is_late, "left_anti").select(f"{ROW}.*")
        self._merge(rows, record, has_absent=has_absent)

    def _merge(self, rows: DataFrame, record: SinkRecord, *, has_absent: bool) -> None:
        table = self._spark.table(self._target.sql).schema
        there_names = {name.lower() for name in table.names}
        if lost := [key for key in self._keys if key.lower() not in there_names]:  # no row would be found by it
            raise ConfigurationError(
                f"{self._target.where} lacks the key column {lost[0]}. Restore the table, or use another target"
            )
        # A column that somebody dropped is not to come back, nor any value to be made fit.
        check_columns(table, rows.schema, self._target.where, evolve=self._evolve)
        if lacking(table, rows.schema):
            self._target.append(self._spark.createDataFrame([], rows.schema), evolve=True)
            table = self._spark.table(self._target.sql).schema
        there = {column.name.lower(): column.dataType for column in table}
        changed, inserted = [], []
        for column in rows.schema:
            name, form = f"s.{quoted(column.name)}", there[column.name.lower()]
            inserted.append(changes.in_form(name, column.dataType, form))
            # Where a row comes from is of one message.
            old = None if column.name == LINEAGE else f"t.{quoted(column.name)}"
            value = changes.in_form(name, column.dataType, form, old)
            changed.append(self._after_update(column.name, value) if has_absent else value)
        names = [*map(quoted, rows.columns)]
        update = ", ".join(f"t.{name} = {value}" for name, value in zip(names, changed, strict=True))
        if RESCUED in there and RESCUED not in rows.columns:  # it is of the record that was the newest
            update += f", t.{RESCUED} = NULL"
        insert = f"({', '.join(names)}) VALUES ({', '.join(inserted)})"
        same = " AND ".join(f"t.{name} = s.{name}" for name in map(quoted, self._keys))
        is_newer = self._is_later(f"s.{_SEQUENCE}", f"t.{_SEQUENCE}", record)
        # With these words columns of the target may be missing in the rows, and fields of its structs.
        head = f"MERGE WITH SCHEMA EVOLUTION INTO {self._target.sql} AS t USING "
        rest = (
            f" AS s ON {same} WHEN MATCHED AND {is_newer} AND s.{CHANGE}.operation = 'delete' THEN DELETE"
            f" WHEN MATCHED AND {is_newer} THEN UPDATE SET {update}"
            f" WHEN NOT MATCHED AND s.{CHANGE}.operation <> 'delete' THEN INSERT {insert}"
        )
        # Delta takes these from the session only. A session of its own, so that no other write there has them.
        with own_session(self._spark, writing_confs(record)) as own:
            if is_connect(own):
                before, after = (part.replace("{", "{{").replace("}", "}}") for part in (head, rest))
                own.sql(f"{before}{{changes}}{after}", changes=rows).collect()
                return
            # A view of one session is not seen by another.
            view = f"changes_{uuid.uuid4().hex}"
            rows.createOrReplaceGlobalTempView(view)
            try:
                own.sql(f"{head}{own.conf.get('spark.sql.globalTempDatabase')}.{view}{rest}").collect()
            finally:
                own.catalog.dropGlobalTempView(view)

    def _is_later(self, new: str, old: str, record: SinkRecord) -> str:
        """SQL that is true if a change of the commit `record` is later than one of before. A round's came after all
        that is there, a retry's may have come before."""
        before = old if record.is_retry else changes.before_all(old, self._sequence)
        return changes.later(new, before, of_logs=self._has_logs)

    def _after_update(self, name: str, value: str) -> str:
        """A column's value after a change that may not know it."""
        if name in (*self._keys, LINEAGE):
            return value
        if name != CHANGE:
            return changes.value_after_update(name, value, f"t.{quoted(name)}")
        # What the table never knew it does not know now either.
        new, old = (f"{alias}.{CHANGE}.absent" for alias in "st")
        unknown = f"IF(arrays_overlap({new}, {old}), array_intersect({new}, {old}), NULL)"
        change = f"named_struct('operation', s.{CHANGE}.operation, 'absent', {unknown}, 'sequence', s.{_SEQUENCE})"
        return f"IF(s.{CHANGE}.operation = 'update', {change}, s.{CHANGE})"


def _strict(fields: Iterable[StructField], path: str = "") -> Iterator[str]:
    """The fields within columns that are NOT NULL."""
    from pyspark.sql.types import StructType

    for field in fields:
        name = f"{path}{quoted(field.name)}"
        if path and not field.nullable:
            yield name
        if isinstance(field.dataType, StructType):
            yield from _strict(field.dataType, f"{name}.")
