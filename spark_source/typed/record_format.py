"""What records mean: expressions of Spark that make typed columns of their bytes. No I/O, and no Python at the rows.

A record is bad if its bytes are not text of the encoding, if that text is not of the format, if a value is not of its
column's type, or if a NOT NULL column has none. The source's own bad messages are bad as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import or_
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from spark_source.session_confs import SESSION_ZONE, session_confs
from tubeclient.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType


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
CHANGES: Final = ("canal-json", "debezium-json")
"""Formats of which a record has any number of rows: `RECORD` is a list of them, and bad or good as a whole."""

PLAIN_TYPES: Final = (
    *("boolean", "byte", "short", "integer", "long", "float", "double", "decimal", "string"),
    *("date", "timestamp", "timestamp_ntz"),
)
_NESTED_TYPES: Final = ("array", "map", "struct", "binary", "variant")

MEANING: Final[Mapping[str, str]] = {
    # What the target's rules mean too: Delta computes and checks with these settings as it writes.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "false",
    # Schemas.
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.charAsVarchar": "false",
    "spark.sql.preserveCharVarcharTypeInfo": "false",
    "spark.sql.legacy.charVarcharAsString": "false",
    "spark.sql.legacy.allowNegativeScaleOfDecimal": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    # Encodings. By default `decode` takes seven, and ends the query at what is wrong; with these it takes each charset
    # of Java's, and writes U+FFFD.
    "spark.sql.legacy.javaCharsets": "true",
    "spark.sql.legacy.codingErrorAction": "true",
    # Values.
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.legacy.json.allowEmptyString.enabled": "false",
    "spark.sql.json.enablePartialResults": "true",
    "spark.sql.json.enableExactStringParsing": "true",
    # Of a key that is there twice the last one counts, for each type.
    "spark.sql.variant.allowDuplicateKeys": "true",
    # Half of a surrogate pair is a question mark, for each type.
    "spark.sql.variant.validateUnicodeInJsonParsing": "false",
}
"""Each setting of a session that changes what records mean, and its value here."""

_CODE_LIMIT: Final = "spark.sql.codegen.hugeMethodLimit"
_MOST_COMPILED_BYTES: Final = 8_000
_MARK: Final = "\ufeff"
_LINE_ENDS: Final = "\r\n"
_TEXT: Final = "__text"
_ARRIVAL: Final = "struct<round: bigint, place: bigint>"
_READ: Final = "__read"


@dataclass(frozen=True)
class RecordFormat:
    """How records are written, and which columns they have.

    `raw` has no schema: its columns are the source's. The others have one, and `LINEAGE` beside its columns.
    """

    kind: str = "raw"
    """raw, json, csv, kv, avro, canal-json or debezium-json."""
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
    """Options of Spark's from_json, from_csv or from_avro, as `timestampFormat`; kv takes some of csv's."""
    keys: tuple[str, ...] = ()
    """The columns that name a row of the target, which are NOT NULL. With them rows have `CHANGE`, in each format."""
    order_by: str | None = None
    """The column that orders the rows of a key; not for `CHANGES`."""
    avro: str = ""
    """Of avro, the schema that `with_sum` made."""

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

    def _check_type(self, one: StructField) -> None:
        kind = one.dataType.typeName()
        has_nested = self.kind in ("json", "avro", "debezium-json")
        if kind not in PLAIN_TYPES and (not has_nested or kind not in _NESTED_TYPES):
            text = "; write STRING" if kind in ("char", "varchar") else ""
            raise ConfigurationError(
                f"column {one.name} is {one.dataType.simpleString()}, a type that {self.kind} has not{text}"
            )
        if '"nullable":false' in one.dataType.json() or '"containsNull":false' in one.dataType.json():
            raise ConfigurationError(f"NOT NULL within column {one.name} is not checked; it is for whole columns")

    @property
    def has_change(self) -> bool:
        """Whether its rows have `CHANGE`."""
        return self.kind in CHANGES or bool(self.keys)

    @property
    def columns(self) -> StructType:
        """The schema, of a format that has one."""
        assert self.schema is not None
        return self.schema

    def parse(self, rows: DataFrame, *, keep: bool = False) -> DataFrame:
        """Add to the source's rows `RECORD` and `BAD_REASON`, of which each row has one and not the other, and
        `UNREAD`. With `keep` raw has no bad ones: `RECORD` is the whole row, with the source's own reason."""
        with as_records_mean(rows.sparkSession, {SESSION_ZONE: self.time_zone}):
            return self._parsed(rows, keep=keep and self.schema is None)

    def _parsed(self, rows: DataFrame, *, keep: bool) -> DataFrame:
        from pyspark.sql import functions as F

        own = [F.col(name) for name in rows.columns if name != BAD_REASON]
        none = F.lit(None).cast("string")
        if keep:
            return rows.select(*own, F.struct("*").alias(RECORD), none.alias(BAD_REASON), F.lit(False).alias(UNREAD))
        names = tuple(rows.columns)
        if names not in self._made:
            source = F.col(BAD_REASON) if BAD_REASON in names else none
            unread = source.isNotNull().alias(UNREAD)
            lineage = F.struct(*(F.col(name) for name in names if name not in (VALUE, BAD_REASON, ARRIVAL)))
            arrival = F.col(ARRIVAL) if ARRIVAL in names else F.lit(None).cast(_ARRIVAL)
            if self.schema is None:
                steps, record = [[*own, source.alias(BAD_REASON), unread]], F.struct(*own)
            else:
                steps, columns = self._reading(own, source, unread, arrival)
                if self.kind in CHANGES:
                    record = F.transform(columns[0], lambda row: row.withField(LINEAGE, lineage))
                else:
                    change = [self._change(columns, arrival)] if self.keys else []
                    record = F.struct(*columns, *change, lineage.alias(LINEAGE))
            good = F.when(F.col(BAD_REASON).isNull(), record)
            self._made[names] = [*steps, [*own, good.alias(RECORD), F.col(BAD_REASON), F.col(UNREAD)]]
        return reduce(lambda frame, columns: frame.select(*columns), self._made[names], rows)

    @cached_property
    def _made(self) -> dict[tuple[str, ...], list[list[Column]]]:
        """The columns that are selected in turn, by the names of the source's columns: a job parses the same ones in
        each round, and to make them costs hundreds of calls of Spark."""
        return {}

    def _reading(
        self, own: list[Column], source: Column, unread: Column, arrival: Column
    ) -> tuple[list[list[Column]], tuple[Column, ...]]:
        """Steps after which the record's columns can be computed, and those; for `CHANGES` it is the list of rows."""
        from pyspark.sql import functions as F

        from spark_source.typed.changes import changes_of
        from spark_source.typed.readings import reading_of

        text, read = F.col(_TEXT), F.col(_READ)
        if self.kind in CHANGES:
            reading = changes_of(self, text, read, arrival)
        else:
            reading = reading_of(self, text, read)
        empty = [F.when(F.col(VALUE).isNull(), "the record is null"), F.when(text == "", "the record is empty")]
        reason = F.coalesce(
            source,
            F.when(F.col(VALUE).isNotNull() & text.isNull(), f"the bytes are not text in {self.encoding}"),
            *(empty if self.kind != "debezium-json" else ()),  # there they have a meaning
            reading.fault,
        )
        steps, kept = [[F.col("*"), self._text().alias(_TEXT)]], [*own, text, read]
        for name, column in (*reading.before, (_READ, reading.read)):
            steps.append([F.col("*"), _once(column).alias(name)])
        kept += [F.col(name) for name, _ in reading.before]
        steps.append([*kept, reason.alias(BAD_REASON), unread])
        return steps, reading.columns

    def _change(self, columns: tuple[Column, ...], arrival: Column) -> Column:
        """`CHANGE` of a row that is no change of a database: it is written over what its key had."""
        from pyspark.sql import functions as F

        from spark_source.typed.changes import change_of

        order = [columns[self.columns.names.index(self.order_by)]] if self.order_by is not None else []
        came = (arrival[name].alias(name) for name in ("round", "place"))
        return change_of(F.lit("update"), *order, *came).alias(CHANGE)

    def only_good(self, rows: DataFrame) -> DataFrame:
        """The source's rows as the target has them; a bad one ends the job. raw has no bad ones: its rows are as the
        source gives them."""
        return rows if self.schema is None else or_fail(self.parse(rows))

    def _text(self) -> Column:
        """The record's text, without a byte order mark at its beginning and line ends at its end; null if the bytes are
        not text of the encoding. Of Avro the bytes."""
        from pyspark.sql import functions as F

        if self.kind == "avro":
            return F.col(VALUE)
        if self.encoding == "UTF-8":
            text = F.try_validate_utf8(F.col(VALUE).cast("string"))
        else:
            decoded = F.decode(VALUE, self.encoding)
            text = F.when(~F.contains(decoded, F.lit("\ufffd")), decoded)
        shed = f"^{_MARK}"
        if not set(self.separator) & set(_LINE_ENDS):
            shed += f"|{'' if self.escape is None else f'(?<!{re.escape(self.escape)})'}[{_LINE_ENDS}]+\\z"
        # Most texts need no regular expression.
        has_more = reduce(or_, (F.endswith(text, F.lit(end)) for end in _LINE_ENDS), F.startswith(text, F.lit(_MARK)))
        return F.when(has_more, F.regexp_replace(text, shed, "")).otherwise(text)


@contextmanager
def as_records_mean(spark: SparkSession, more: Mapping[str, str] = MappingProxyType({})) -> Iterator[None]:
    """Within it, and in queries that are started in it, records mean what the format says, whatever the session's own
    settings are. Spark reads some when it makes expressions, some when tasks run them, and some at both times.

    Java also compiles what Spark generates for parsed rows there. It never compiles a method of more than 8 000 bytes
    (HotSpot's HugeMethodLimit), and a schema of five columns makes a larger one. Spark splits only what is larger than
    its own limit, by default 65 535 bytes.
    """
    limit = min(int(spark.conf.get(_CODE_LIMIT) or _MOST_COMPILED_BYTES), _MOST_COMPILED_BYTES)
    with session_confs(spark, {**MEANING, _CODE_LIMIT: str(limit), **more}):
        yield


def _once(read: Column) -> Column:
    """A column that Spark computes once for each row. It moves a filter on the reason below a column that is
    deterministic, and then reads each text again for each mention of the column. The partition's number is always
    there, and counts as not deterministic."""
    from pyspark.sql import functions as F

    return F.when(F.spark_partition_id() >= 0, read)


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
    return _rows_of(parsed.withColumn(RECORD, F.coalesce(F.col(RECORD), F.raise_error(text))))


def place_of(parsed: DataFrame) -> Column:
    """Where a record is, for people. What is null, as the index of a message that the source could not read, is left
    out."""
    from pyspark.sql import functions as F

    words = {"topic": "topic", "partitionKey": "partition", "messageId": "message id", "recordIndex": "record"}
    place = [F.concat(F.lit(f"{word} "), F.col(name)) for name, word in words.items() if name in parsed.columns]
    return F.concat_ws(", ", *place or [F.lit("a batch")])
