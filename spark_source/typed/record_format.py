"""What records mean, on Spark: rows of bytes become rows with a typed record, or with the reason why there is none.

A record is bad if its bytes are not text of the encoding, if that text is not of the format, if a value is not of its
column's type, or if a NOT NULL column has none. The source's own bad messages are bad as well. tubeclient.records
decides; Avro is Spark's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from spark_source.read.schema import arrow_type
from spark_source.session_confs import session_confs
from tubeclient.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

    from tubeclient.records import RecordSpec


RECORD: Final = "record"
"""The parsed rows' struct of the columns that go to the target; null in a bad row."""
BAD_REASON: Final = "badReason"
"""Why a parsed row is bad; null in a good one."""
BAD_RECORD: Final = "bad record in "
"""How the error of a bad record begins."""
UNREAD: Final = "unread"
"""Whether a parsed row is bad because the source could not read the message: no format makes it good."""
VALUE: Final = "value"
"""The source's column of the record's bytes."""
LINEAGE: Final = "tubemq"
"""The target's struct of where a typed row comes from: the source's columns but value and badReason."""
CHANGE: Final = "change"
"""The target's struct of what was done to a row, and of what orders the changes of a key."""
ARRIVAL: Final = "__arrival"
"""struct<round: BIGINT, place: BIGINT>, beside the source's columns: the round that read the message, and its place
there. Orders changes that the record itself does not."""
PLACE_WORDS: Final[Mapping[str, str]] = {
    "topic": "topic",
    "partitionKey": "partition",
    "messageId": "message id",
    "recordIndex": "record",
}
"""The source's columns that name a record, and what people call them."""
CHANGES: Final = ("canal-json", "debezium-json")
"""Formats of which a record has any number of rows: `RECORD` is a list of them, and bad or good as a whole."""

PLAIN_TYPES: Final = (
    *("boolean", "byte", "short", "integer", "long", "float", "double", "decimal", "string"),
    *("date", "timestamp", "timestamp_ntz"),
)
_NESTED_TYPES: Final = ("array", "map", "struct", "binary", "variant")

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
    "spark.sql.ansi.enforceReservedKeywords": "false",
}
"""Each setting of a session that changes what schemas and tables' rules mean, and its value here. None changes what
records mean."""

_ARRIVAL: Final = "struct<round: bigint, place: bigint>"


@dataclass(frozen=True)
class RecordFormat:
    """How records are written, and which columns they have.

    `raw` has no schema: its columns are the source's. The others have one, and `LINEAGE` beside its columns.
    """

    kind: str = "raw"
    """raw, json, csv, kv, avro, protobuf, canal-json or debezium-json."""
    schema: StructType | None = None
    separator: str = ","
    """Between the fields of csv, and between the pairs of kv."""
    kv_separator: str = "="
    """Between a key and its value; kv only."""
    escape: str | None = None
    """Takes its meaning from the character that follows. csv with it has no quotes: that is InLong's csv."""
    encoding: str = "UTF-8"
    """Java's name of the charset."""
    time_zone: str = "UTC"
    """IANA name of the zone of times that are written without one."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of the format, with the names of Spark's from_json, from_csv or from_avro, as `timestampFormat`."""
    keys: tuple[str, ...] = ()
    """The columns that name a row of the target, which are NOT NULL. With them rows have `CHANGE`, in each format."""
    order_by: str | None = None
    """The column that orders the rows of a key; not for `CHANGES`."""
    avro: str = ""
    """Of avro, the schema that `with_sum` made."""
    descriptor: bytes = field(default=b"", repr=False)
    """Of protobuf, the bytes of the descriptor file."""
    message: str = ""
    """Of protobuf, the message's name in it."""

    def __post_init__(self) -> None:
        if (self.kind == "raw") != (self.schema is None):
            raise ValueError("raw has no schema, and every other format has one")
        names = [name.lower() for name in self.schema.names] if self.schema is not None else []
        if LINEAGE in names:
            raise ConfigurationError(
                f"the schema has a column {LINEAGE}, which is where the target says where a row comes from; give it"
                " another name"
            )
        if self.has_change and CHANGE in names:
            raise ConfigurationError(
                f"the schema has a column {CHANGE}, which is where the target says what was done to a row; leave it out"
            )
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigurationError(
                f"the schema has {', '.join(twice)} more than once; names differ by more than case"
            )
        for one in self.schema or ():
            self._check_type(one)
        if self.is_decoded:
            from tubeclient.records import Decoder

            Decoder(self.spec)

    def _check_type(self, one: StructField) -> None:
        kind = one.dataType.typeName()
        has_nested = self.kind in ("json", "avro", "protobuf", "debezium-json")
        if kind not in PLAIN_TYPES and (not has_nested or kind not in _NESTED_TYPES):
            text = "; write STRING" if kind in ("char", "varchar") else ""
            raise ConfigurationError(
                f"column {one.name} is {one.dataType.simpleString()}, a type that {self.kind} has not{text}"
            )
        if '"nullable":false' in one.dataType.json() or '"containsNull":false' in one.dataType.json():
            raise ConfigurationError(f"NOT NULL within column {one.name} is not checked; it is for whole columns")
        if kind != "variant" and '"variant"' in one.dataType.json() and self.kind != "avro":
            raise ConfigurationError(f"column {one.name} has a VARIANT within; make it VARIANT, or STRING there")

    @property
    def has_change(self) -> bool:
        """Whether its rows have `CHANGE`."""
        return self.kind in CHANGES or bool(self.keys)

    @property
    def is_decoded(self) -> bool:
        """Whether tubeclient.records reads it, and not Spark."""
        return self.kind not in ("raw", "avro")

    @property
    def columns(self) -> StructType:
        """The schema, of a format that has one."""
        assert self.schema is not None
        return self.schema

    @property
    def spec(self) -> RecordSpec:
        """The same without Spark, of a format that is decoded."""
        import pyarrow as pa

        from tubeclient.records import RecordSpec

        def of(one: StructField) -> pa.Field:
            variant = {b"variant": b"true"} if is_variant(one) else None
            kind = pa.string() if variant else arrow_type(one.dataType)
            return pa.field(one.name, kind, one.nullable, variant)

        return RecordSpec(
            kind=self.kind,
            schema=pa.schema([of(one) for one in self.columns]),
            separator=self.separator,
            kv_separator=self.kv_separator,
            escape=self.escape,
            encoding=self.encoding,
            time_zone=self.time_zone,
            options=dict(self.options),
            keys=self.keys,
            descriptor=self.descriptor,
            message=self.message,
        )

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
        if self.kind == "avro":
            from spark_source.typed.avro import avro_read

            rows = avro_read(rows, own, self.columns, self.avro, self.options)
        elif RECORD not in rows.columns:
            from spark_source.typed.decoding import Decoding

            decoding = Decoding(self, all_values=True)
            rows = rows.mapInArrow(decoding, decoding.schema(rows.schema))
        return rows.select(*own, self._complete(rows.columns).alias(RECORD), BAD_REASON, UNREAD)

    def _complete(self, names: list[str]) -> Column:
        """`RECORD` with what the target has beside the schema's columns: `CHANGE` and `LINEAGE`."""
        from pyspark.sql import functions as F

        lineage = F.struct(*(F.col(one) for one in names if one not in (VALUE, ARRIVAL, RECORD, BAD_REASON, UNREAD)))
        arrival = F.col(ARRIVAL) if ARRIVAL in names else F.lit(None).cast(_ARRIVAL)

        def of(row: Column) -> list[Column]:
            found = []
            for one in self.columns:
                column = row[one.name]
                found.append((F.parse_json(column) if is_variant(one) else column).alias(one.name))
            return found

        if self.kind not in CHANGES:
            change = [_change(self.order_by, arrival).alias(CHANGE)] if self.keys else []
            made = F.struct(*of(F.col(RECORD)), *change, lineage.alias(LINEAGE))
            return F.when(once() & F.col(BAD_REASON).isNull(), made)

        def change_of(row: Column) -> Column:
            came = row[CHANGE].withField("sequence.round", arrival["round"])
            return came.withField("sequence.place", arrival["place"])

        made = F.transform(RECORD, lambda row: F.struct(*of(row), change_of(row).alias(CHANGE), lineage.alias(LINEAGE)))
        return F.when(once(), made)

    def only_good(self, rows: DataFrame) -> DataFrame:
        """The source's rows as the target has them; a bad one ends the job. raw has no bad ones: its rows are as the
        source gives them."""
        return rows if self.schema is None else or_fail(self.parse(rows))


def once() -> Column:
    """True. In a column it makes Spark compute that once for each row: it writes a deterministic one out in each place
    that uses it, which with a hundred columns takes minutes. The partition's number is always there, and counts as not
    deterministic."""
    from pyspark.sql import functions as F

    return F.spark_partition_id() >= 0


def is_variant(one: StructField) -> bool:
    return one.dataType.typeName() == "variant"


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
