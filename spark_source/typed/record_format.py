"""What records mean, on Spark: rows of bytes become rows with a typed record, or with the reason why there is none.

A record is bad if its bytes are not text of the encoding, if that text is not of the format, if a value is not of its
column's type, or if a NOT NULL column has none. The source's own bad messages are bad as well. tubeclient.records
decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from spark_source.read.schema import arrow_type, spark_type
from spark_source.session_confs import session_confs
from spark_source.typed.columns import (
    ARRIVAL,
    BAD_REASON,
    BAD_RECORD,
    CHANGE,
    LINEAGE,
    PLACE_WORDS,
    RECORD,
    UNREAD,
    VALUE,
)
from spark_source.typed.decoding import Decoding, is_variant
from tubeclient.errors import ConfigurationError
from tubeclient.records import Decoder, RecordSpec
from tubeclient.records.spec import CHANGES, RESCUED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

    from spark_source.typed.selection import SelectedColumn, Selection


PINNED: Final[Mapping[str, str]] = {
    # What a table's rules mean: Delta computes and checks with these settings as it writes.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "false",
    # What a schema means.
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.charAsVarchar": "false",
    "spark.sql.preserveCharVarcharTypeInfo": "false",
    "spark.sql.legacy.charVarcharAsString": "false",
    "spark.sql.legacy.allowNegativeScaleOfDecimal": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    # In texts of SQL ${...} would be a setting or a variable of the driver's environment.
    "spark.sql.variable.substitute": "false",
}
"""Each setting of a session that changes what schemas and tables' rules mean, and its value here. None changes what
records mean."""

_ARRIVAL: Final = "struct<round: bigint, place: bigint>"


@dataclass(frozen=True)
class RecordFormat:
    """How records are written, and which columns they have; with `RESCUED`, if their fields are rescued.

    `raw` has no schema: its columns are the source's. The others have one, and `LINEAGE` beside its columns.
    """

    schema: StructType | None = None
    spec: RecordSpec | None = None
    """The same without Spark, with the schema's columns; None for raw."""
    order_by: str | None = None
    """The column that orders the rows of a key; not for `CHANGES`."""
    selection: Selection | None = None
    """What the schema's columns are made of; None: they are the spec's."""

    def __post_init__(self) -> None:
        names = [name.lower() for name in self.schema.names] if self.schema is not None else []
        if LINEAGE in names:
            raise ConfigurationError(
                f"the schema has a column {LINEAGE}, where the target records where a row comes from; rename it"
            )
        if self.has_change and CHANGE in names:
            raise ConfigurationError(
                f"the schema has a column {CHANGE}, where the target records what was done to a row; leave it out"
            )
        if self.spec is not None:
            Decoder(self.spec)
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigurationError(
                f"the schema has {', '.join(twice)} more than once; names must differ in more than case"
            )

    @classmethod
    def of(
        cls, schema: StructType, spec: RecordSpec, order_by: str | None = None, selection: Selection | None = None
    ) -> RecordFormat:
        """Records of a `spec` with the columns of `schema` in place of its own; its keys are NOT NULL, and so is what
        orders their rows, where values are rescued. Of them a `selection` makes those that rows have."""
        from pyspark.sql.types import StringType, StructField, StructType

        sure = {*spec.keys}
        if spec.rescue == "values" and order_by is not None:  # as null it would be the oldest
            sure.add(order_by if selection is None else selection.column_of(order_by))
        fields = [
            StructField(field.name, field.dataType, field.nullable and field.name not in sure) for field in schema
        ]
        columns = arrow_columns(fields)
        if selection is not None:
            there = {field.name: field for field in fields}
            fields = [_selected(output, there) for output in selection.outputs]
        rescued = [] if spec.rescue == "none" else [StructField(RESCUED, StringType())]
        return cls(StructType([*fields, *rescued]), replace(spec, schema=columns), order_by, selection)

    @property
    def kind(self) -> str:
        """raw, json, csv, kv, avro, protobuf, canal-json or debezium-json."""
        return "raw" if self.spec is None else self.spec.kind

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that name a row of the target, which are NOT NULL. With them rows have `CHANGE`."""
        keys = () if self.spec is None else self.spec.keys
        return keys if self.selection is None else tuple(map(self.selection.name_of, keys))

    @property
    def has_change(self) -> bool:
        """Whether its rows have `CHANGE`."""
        return self.kind in CHANGES or bool(self.keys)

    @property
    def columns(self) -> StructType:
        """The schema, of a format that has one."""
        assert self.schema is not None
        return self.schema

    def decoding(self, *, all_values: bool) -> Decoding:
        """What reads it, for `mapInArrow`; `all_values` as Decoding has it."""
        assert self.spec is not None
        return Decoding(self.spec, self.columns, self.selection, all_values=all_values)

    def parse(self, rows: DataFrame, *, keep: bool = False) -> DataFrame:
        """Add to the source's rows, or to those of `Decoding`, `RECORD` and `BAD_REASON`, of which each row has one and
        not the other, and `UNREAD`. With `keep` raw has no bad ones: `RECORD` is the whole row, with the source's own
        reason."""
        from pyspark.sql import functions as F

        own = [F.col(name) for name in rows.columns if name not in (RECORD, BAD_REASON, UNREAD)]
        none = F.lit(None).cast("string")
        if self.schema is None:
            source = F.col(BAD_REASON) if BAD_REASON in rows.columns and not keep else none
            record = F.struct("*") if keep else F.when(source.isNull(), F.struct(*own))
            unread = source.isNotNull()
            return rows.select(*own, record.alias(RECORD), source.alias(BAD_REASON), unread.alias(UNREAD))
        if RECORD not in rows.columns:
            decoding = self.decoding(all_values=True)
            rows = rows.mapInArrow(decoding, decoding.schema(rows.schema))
        return rows.select(*own, self._complete(rows.columns).alias(RECORD), BAD_REASON, UNREAD)

    def _complete(self, names: list[str]) -> Column:
        """`RECORD` with what the target has beside the schema's columns: `CHANGE` and `LINEAGE`."""
        from pyspark.sql import functions as F

        lineage = F.struct(*(F.col(name) for name in names if name not in (VALUE, ARRIVAL, RECORD, BAD_REASON, UNREAD)))
        arrival = F.col(ARRIVAL) if ARRIVAL in names else F.lit(None).cast(_ARRIVAL)

        def of(row: Column) -> list[Column]:
            found = []
            for field in self.columns:
                column = row[field.name]
                found.append((F.parse_json(column) if is_variant(field) else column).alias(field.name))
            return found

        if self.kind not in CHANGES:
            change = [_change(self.order_by, arrival).alias(CHANGE)] if self.keys else []
            made = F.struct(*of(F.col(RECORD)), *change, lineage.alias(LINEAGE))
            return F.when(_once() & F.col(BAD_REASON).isNull(), made)

        def change_of(row: Column) -> Column:
            came = row[CHANGE].withField("sequence.round", arrival["round"])
            return came.withField("sequence.place", arrival["place"])

        made = F.transform(RECORD, lambda row: F.struct(*of(row), change_of(row).alias(CHANGE), lineage.alias(LINEAGE)))
        return F.when(_once(), made)

    def only_good(self, rows: DataFrame) -> DataFrame:
        """The source's rows as the target has them; a bad one ends the job. raw has no bad ones: its rows are as the
        source gives them."""
        return rows if self.schema is None else or_fail(self.parse(rows))


def _once() -> Column:
    """True. In a column it makes Spark compute that once for each row: it writes a deterministic one out in each place
    that uses it, which with a hundred columns takes minutes. The partition's number is always there, and counts as not
    deterministic."""
    from pyspark.sql import functions as F

    return F.spark_partition_id() >= 0


def arrow_columns(fields: Iterable[StructField]) -> pa.Schema:
    """Columns for tubeclient.records. ConfigurationError: a type that Arrow or they do not have."""
    return pa.schema([_arrow_field(field) for field in fields])


def _selected(output: SelectedColumn, columns: Mapping[str, StructField]) -> StructField:
    """A column of a selection, of records with these columns."""
    from pyspark.sql.types import StructField

    if output.type is not None:
        return StructField(output.name, spark_type(output.type))
    return StructField(output.name, columns[output.needs[0]].dataType, columns[output.needs[0]].nullable)


def _arrow_field(field: StructField) -> pa.Field:
    """A column of the schema for tubeclient.records. ConfigurationError: a type that Arrow or they do not have."""
    kind, text = field.dataType.typeName(), field.dataType.json()
    if kind in ("char", "varchar"):
        raise ConfigurationError(
            f"column {field.name} is {field.dataType.simpleString()}, a type that records do not have; write STRING"
        )
    if '"nullable":false' in text or '"containsNull":false' in text:
        raise ConfigurationError(
            f"NOT NULL inside column {field.name} cannot be checked; use it only for whole columns"
        )
    if kind == "variant":
        return pa.field(field.name, pa.string(), field.nullable, {b"variant": b"true"})
    if '"variant"' in text:
        raise ConfigurationError(
            f"column {field.name} contains a VARIANT; make the whole column VARIANT, or use STRING there"
        )
    return pa.field(field.name, arrow_type(field.dataType), field.nullable)


def _change(order_by: str | None, arrival: Column) -> Column:
    """`CHANGE` of a row that is no change of a database: it is written over what its key had."""
    from pyspark.sql import functions as F

    order = [F.col(RECORD)[order_by].alias(order_by)] if order_by is not None else []
    sequence = F.struct(*order, *(arrival[name].alias(name) for name in ("round", "place")))
    return F.struct(F.lit("update").alias("operation"), sequence.alias("sequence"))


@contextmanager
def pinned(spark: SparkSession, more: Mapping[str, str] | None = None) -> Iterator[None]:
    """Within it schemas and tables' rules mean what they say, whatever the session's own settings are."""
    with session_confs(spark, {**PINNED, **(more or {})}):
        yield


def target_rows(parsed: DataFrame) -> DataFrame:
    """The good rows of `RecordFormat.parse`, as the target has them: the record's columns."""
    return _rows_of(parsed.where(f"{BAD_REASON} IS NULL"))


def _rows_of(parsed: DataFrame) -> DataFrame:
    has_many = parsed.schema[RECORD].dataType.typeName() == "array"
    return parsed.selectExpr(f"inline({RECORD})" if has_many else f"{RECORD}.*")


def or_fail(parsed: DataFrame) -> DataFrame:
    """As `target_rows`, but a bad row ends the job with its place and its reason. One pass: the cost is
    a look at each record whether it is null."""
    from pyspark.sql import functions as F

    text = F.concat(F.lit(BAD_RECORD), place_of(parsed), F.lit(": "), F.col(BAD_REASON))
    return _rows_of(parsed.where(F.col(BAD_REASON).isNull() | F.raise_error(text).cast("boolean")))


def place_of(parsed: DataFrame) -> Column:
    """Where a record is, for people. What is null, as the index of a message that the source could not read, is left
    out."""
    from pyspark.sql import functions as F

    place = [F.concat(F.lit(f"{word} "), F.col(name)) for name, word in PLACE_WORDS.items() if name in parsed.columns]
    return F.concat_ws(", ", *place or [F.lit("a batch")])
