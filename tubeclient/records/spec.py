"""How records are written and which columns they have; checked, without Spark and without reading any record."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import pyarrow as pa

from tubeclient.arguments import nearest
from tubeclient.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSpec:
    """How records are written, and which columns they have. Can be pickled."""

    kind: str
    """json, csv, kv, avro, protobuf, canal-json or debezium-json."""
    schema: pa.Schema
    """The columns, in order. A field that is not nullable is NOT NULL; that counts for whole columns only. A text with
    the metadata {b"variant": b"true"} is a VARIANT: the JSON text of any value."""
    separator: str = ","
    """Between the fields of csv, and between the pairs of kv."""
    escape: str | None = None
    """In csv and kv, it takes its meaning from the next character. csv with it has no quotes, and nor has csv with the
    option quote="". It is not the option `escape`, which is for quotes within quotes."""
    encoding: str = "UTF-8"
    """Any name that Python's codecs have for one of `ENCODINGS`."""
    time_zone: str = "UTC"
    """IANA name; the zone of times that are written without one."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Those of `OPTIONS`."""
    keys: tuple[str, ...] = ()
    """Of changes only: a deleted row needs these columns and no others; TRUNCATE is bad with keys."""
    descriptor: bytes = field(default=b"", repr=False)
    """Of protobuf a FileDescriptorSet with all imports; of avro the JSON of its schema."""
    message: str = ""
    """Of protobuf only: the message's full name in the descriptor, or its own."""
    rescue: str = "none"
    """One of `RESCUES`, "none" unless `kind` is of `RESCUING`: what goes to a further column, `RESCUED`."""

    @property
    def has_quotes(self) -> bool:
        """Whether csv's values may be in quotes."""
        return self.kind == "csv" and self.escape is None and self.options.get("quote") != ""

    @property
    def kv_separator(self) -> str:
        """Between a key and its value."""
        return self.options.get("kvSeparator", "=")


class Column(NamedTuple):
    """A column, or what is within one."""

    name: str
    """Its own name; "" within a list or a map."""
    kind: str
    """bool, int, float, decimal, string, variant, binary, date, timestamp, timestamp_ntz, list, map or struct; or
    rescued, which is the last one."""
    type: pa.DataType
    simple: str
    """Spark's name of the type, such as bigint or array<int>."""
    size: tuple[int, ...] = ()
    """The bits of a number; the precision and scale of a decimal."""
    parts: tuple[Column, ...] = ()
    """What a list's items are; a map's keys and values; a struct's fields."""
    required: bool = False
    """Whether it is NOT NULL."""


CHANGES: Final = ("canal-json", "debezium-json")
"""Kinds of which a record has any number of rows."""
BINARY: Final = ("avro", "protobuf")
"""Kinds whose records are not texts. The plain code reads them."""
NESTED: Final = ("json", *BINARY, "debezium-json")
"""Kinds that have more than plain types."""
KINDS: Final = ("json", "csv", "kv", *BINARY, *CHANGES)
RESCUING: Final = ("json", "kv")
"""Kinds whose records may have more fields than there are columns."""
RESCUES: Final = ("none", "fields", "values")
"""Nothing; fields that no column has; also values that are not of their column's type, unless it is NOT NULL."""
RESCUED: Final = "_rescued"
"""The column of what no other one takes."""
ENCODINGS: Final = ("UTF-8", "UTF-16", "UTF-16BE", "UTF-16LE", "US-ASCII", "ISO-8859-1", "GBK", "GB18030", "Big5")

_TIMES: Final = ("timestampFormat", "dateFormat")
_READERS: Final = (*_TIMES, "timestampNTZFormat")
OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "json": (
        *_READERS,
        *("allowComments", "allowSingleQuotes", "allowUnquotedFieldNames", "allowNumericLeadingZeros"),
        *("allowUnquotedControlChars", "allowNonNumericNumbers"),
    ),
    "debezium-json": (*_READERS, "unavailableValuePlaceholder"),
    "canal-json": _TIMES,
    "csv": (
        *_READERS,
        *("quote", "escape", "charToEscapeQuoteEscaping", "nullValue", "emptyValue", "nanValue", "positiveInf"),
        *("negativeInf", "ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace"),
    ),
    "csv without quotes": (*_TIMES, "nullValue"),
    "kv": (*_TIMES, "nullValue", "kvSeparator"),
    "avro": ("enableStableIdentifiersForUnionType", "stableIdentifierPrefixForUnionType"),
    "protobuf": ("descFilePath", "messageName"),
}
"""Options of each format, with Spark's names. Those of Spark's are left out that change what a bad record is. Those of
protobuf are for whoever makes `descriptor` and `message` of them."""

_PLAIN: Final[dict[pa.DataType, tuple[str, str, tuple[int, ...]]]] = {
    pa.bool_(): ("bool", "boolean", ()),
    pa.int8(): ("int", "tinyint", (8,)),
    pa.int16(): ("int", "smallint", (16,)),
    pa.int32(): ("int", "int", (32,)),
    pa.int64(): ("int", "bigint", (64,)),
    pa.float32(): ("float", "float", (32,)),
    pa.float64(): ("float", "double", (64,)),
    pa.string(): ("string", "string", ()),
    pa.binary(): ("binary", "binary", ()),
    pa.date32(): ("date", "date", ()),
    pa.timestamp("us", "UTC"): ("timestamp", "timestamp", ()),
    pa.timestamp("us"): ("timestamp_ntz", "timestamp_ntz", ()),
}
"""Kind, Spark's name and size by Arrow's types."""
_DEEPEST: Final = 50
"""Types within types. Each takes a few calls of Python's stack."""


def check_rescue(rescue: str, kind: str) -> None:
    """ConfigurationError: it is none of `RESCUES`, or records of the kind have nothing to rescue."""
    if rescue not in RESCUES:
        raise ConfigurationError(f"rescue is {rescue!r}; write {', '.join(RESCUES[:-1])} or {RESCUES[-1]}")
    if rescue != "none" and kind not in RESCUING:
        raise ConfigurationError(
            f"rescue is {rescue}, but the format is {kind}; only {' and '.join(RESCUING)} have fields to rescue: "
            "leave it out"
        )


def check_options(spec: RecordSpec) -> None:
    """ConfigurationError: an option that records of the kind do not have."""
    check_rescue(spec.rescue, spec.kind)
    kind = "csv without quotes" if spec.kind == "csv" and not spec.has_quotes else spec.kind
    for name, text in spec.options.items():
        if name not in OPTIONS[kind] and (spec.kind, name, text) != ("csv", "quote", ""):
            raise ConfigurationError(f"{name} is not a format option of {kind}; {nearest(name, OPTIONS[kind])}")


def encoding_of(spec: RecordSpec) -> str:
    """The encoding's name in `ENCODINGS`. ConfigurationError: it is another one."""
    try:
        return next(name for name in ENCODINGS if codecs.lookup(name) == codecs.lookup(spec.encoding))
    except (LookupError, ValueError, StopIteration):  # ValueError: a character that no name has
        raise ConfigurationError(f"encoding is {spec.encoding!r}; use one of {', '.join(ENCODINGS)}") from None


def columns_of(spec: RecordSpec) -> tuple[Column, ...]:
    """The columns of the schema, and `RESCUED`. ConfigurationError: a type that the kind of records does not have."""
    found = []
    for given in spec.schema:
        column = _column(given.name, given.type, given.name, 0)
        if given.metadata is not None and given.metadata.get(b"variant") == b"true" and column.kind == "string":
            column = column._replace(kind="variant", simple="variant")
        is_plain = not column.parts and column.kind not in ("binary", "variant")
        if not is_plain and spec.kind not in NESTED:
            raise ConfigurationError(f"column {given.name} is {column.simple}, a type that {spec.kind} does not have")
        found.append(column._replace(required=not given.nullable))
    if spec.rescue != "none":
        if twin := next((column.name for column in found if column.name.lower() == RESCUED), None):
            raise ConfigurationError(
                f"the schema has a column {twin}, which is where rescue puts the values that no column takes; rename "
                "it, or leave rescue out"
            )
        found.append(Column(RESCUED, "rescued", pa.string(), "string"))
    return tuple(found)


def simple_name(kind: pa.DataType) -> str:
    """Spark's name of a type. ConfigurationError: a type that records do not have."""
    return _column("", kind, "", 0).simple


def _column(name: str, kind: pa.DataType, top: str, depth: int) -> Column:
    if depth > _DEEPEST:
        raise ConfigurationError(f"column {top} nests more than {_DEEPEST} types")

    def within(field: pa.Field, name: str = "") -> Column:
        return _column(name, field.type, top, depth + 1)

    if kind in _PLAIN:
        word, simple, size = _PLAIN[kind]
        return Column(name, word, kind, simple, size)
    if pa.types.is_decimal128(kind) and 0 <= kind.scale <= kind.precision:
        size = (kind.precision, kind.scale)
        return Column(name, "decimal", kind, f"decimal({kind.precision},{kind.scale})", size)
    if pa.types.is_list(kind):
        item = within(kind.value_field)
        return Column(name, "list", kind, f"array<{item.simple}>", (), (item,))
    if pa.types.is_map(kind):
        key, item = within(kind.key_field), within(kind.item_field)
        if key.parts:
            raise ConfigurationError(f"column {top} has a map whose keys are {key.simple}; JSON's keys are text")
        return Column(name, "map", kind, f"map<{key.simple},{item.simple}>", (), (key, item))
    if pa.types.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        parts = tuple(within(field, field.name) for field in fields)
        if len({part.name for part in parts}) < len(parts):
            raise ConfigurationError(f"column {top} has a struct with two fields of the same name")
        inner = ",".join(f"{part.name}:{part.simple}" for part in parts)
        return Column(name, "struct", kind, f"struct<{inner}>", (), parts)
    raise ConfigurationError(f"column {top} has the type {kind}, which records do not have")


def flag(options: Mapping[str, str], name: str, default: str = "false") -> bool:
    """An option that is true or false, ignoring case. ConfigurationError: another text."""
    text = options.get(name, default).strip().lower()
    if text not in ("true", "false"):
        raise ConfigurationError(f"{name} is {options[name]!r}; write true or false")
    return text == "true"
