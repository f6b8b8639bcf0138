"""What users say of their records' format, checked; and how a `RecordFormat` comes of it."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_source.options.settings_file import dashed, nearest
from spark_source.typed.avro import avro_columns, with_sum
from spark_source.typed.inlong_stream import StreamFormat, parse_stream
from spark_source.typed.protobuf import OPTIONS as PROTOBUF_OPTIONS
from spark_source.typed.protobuf import described, message_columns
from spark_source.typed.record_format import CHANGES, PLAIN_TYPES, RecordFormat, pinned
from tubeclient.errors import ConfigurationError
from tubeclient.wire.message_time import zone_named

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["ENCODINGS", "FormatSettings"]

_KINDS: Final = ("raw", "json", "csv", "kv", "avro", "protobuf", *CHANGES)
_TIMES: Final = ("timestampFormat", "dateFormat")
_READERS: Final = (*_TIMES, "timestampNTZFormat")
_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
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
    "protobuf": PROTOBUF_OPTIONS,
    "avro": ("enableStableIdentifiersForUnionType", "stableIdentifierPrefixForUnionType", "recursiveFieldMaxDepth"),
}
"""Spark's options of each format. Those are left out that change what a bad record is."""

ENCODINGS: Final = ("UTF-8", "UTF-16", "UTF-16BE", "UTF-16LE", "US-ASCII", "ISO-8859-1", "GBK", "GB18030", "Big5")
"""Java's names of the charsets that records may have."""

OF_ARRIVAL: Final = "arrival"
"""As the column that orders the rows of a key: that of a partition which came last is the newest."""

_SEPARATORS: Final = {"csv": ",", "kv": "&"}
_KV_SEPARATOR: Final = "="
_CHARACTERS: Final = ("kvSeparator", "quote", "escape", "charToEscapeQuoteEscaping")
"""Options that are a character."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatSettings:
    """What records mean; all None for raw."""

    format: str | None = None
    """raw, json, csv, kv, avro, protobuf, canal-json or debezium-json. None: what the InLong stream says, or raw."""
    schema: str | None = None
    """The columns as in CREATE TABLE, such as "id BIGINT NOT NULL, name STRING"; or a path that ends in .ddl. Of
    avro an Avro schema, or a path that ends in .avsc. Of protobuf None as well: the message's fields."""
    schema_from_inlong: str | None = None
    """A stream's JSON from InLong's Manager, or its path. What it says beside its fields are defaults for others."""
    separator: str | None = None
    escape: str | None = None
    encoding: str | None = None
    time_zone: str | None = None
    """IANA name of the zone of times that are written without one, in records and on messages. None: UTC."""
    format_options: Mapping[str, str] = field(default_factory=dict)
    key: tuple[str, ...] = ()
    """The columns that name a row, of which the target has the newest state. None: it has all rows."""
    order_by: str | None = None
    """The column that orders the rows of a key in json, csv, kv and protobuf; or `OF_ARRIVAL`."""

    def __post_init__(self) -> None:
        self.check_format(self.format)
        if self.schema is not None and self.schema_from_inlong is not None:
            raise ConfigurationError("schema and schema-from-inlong both say which columns there are; remove one")
        complete, _ = self._complete(), self.zone
        if complete.kind == "raw":
            given = sorted(name for name in _NEED_A_FORMAT if getattr(self, name))
            if given:
                name = dashed(given[0])
                raise ConfigurationError(
                    f"{name} is given, and the format is raw; set format to {', '.join(_KINDS[1:-1])} or {_KINDS[-1]}"
                )
            return
        if self.order_by is not None and (complete.kind in CHANGES or not self.key):
            need = "key is not given; name the columns that name a row" if not self.key else f"{complete.kind} says it"
            raise ConfigurationError(f"order-by says which row of a key is the newest, and {need}")
        if complete.kind == "avro" and self.key:
            raise ConfigurationError("key is for records that are texts, and the format is avro; remove one")
        if self.key and self.order_by is None and complete.kind not in CHANGES:
            raise ConfigurationError(
                "key is given, and nothing says which row of a key is the newest, as partitions have no common order."
                f" Give order-by: a column whose greatest value is the newest; or {OF_ARRIVAL}, if all rows of a key"
                " are sent to one partition"
            )
        if complete.kind in ("avro", "protobuf"):
            _ = with_sum(complete.ddl) if complete.kind == "avro" else described(complete.options)
            if self.encoding not in (None, "UTF-8"):
                raise ConfigurationError(f"encoding is of texts, and the format is {complete.kind}; remove it")
        elif not complete.ddl.strip():
            raise ConfigurationError(
                f"format {complete.kind} needs a schema, as 'id BIGINT, name STRING', or schema-from-inlong"
            )
        self._check_separators(complete)
        self._check_options(complete)
        _encoding_named(complete.encoding)

    @staticmethod
    def check_format(name: str | None) -> None:
        """ConfigurationError for a name that is no format's."""
        if name is not None and name not in _KINDS:
            raise ConfigurationError(f"format is {name!r}; there are {', '.join(_KINDS)}")

    def record_format(self) -> RecordFormat:
        """The format with its schema. Needs a running Spark, which parses the schema. Raises ConfigurationError."""
        complete = self._complete()
        if complete.kind == "raw":
            return RecordFormat()
        if complete.kind == "avro":
            avro = with_sum(complete.ddl)
            columns = avro_columns(avro, complete.options)
            return RecordFormat("avro", columns, time_zone=self.zone, options=complete.options, avro=avro)
        from pyspark.sql.types import StructField, StructType

        descriptor, message = described(complete.options) if complete.kind == "protobuf" else (b"", "")
        schema = _parsed(complete.ddl) if complete.ddl.strip() else message_columns(descriptor, message)
        keys = tuple(self._column(schema, "key", name) for name in self.key)
        order_by = self.order_by
        if order_by == OF_ARRIVAL and OF_ARRIVAL in map(str.lower, schema.names):
            raise ConfigurationError(
                f"order-by is {OF_ARRIVAL}, the order in which rows of a partition come, and the schema has such a"
                " column; give the column another name"
            )
        order_by = None if order_by in (None, OF_ARRIVAL) else self._column(schema, "order-by", order_by)
        schema = StructType(
            [StructField(one.name, one.dataType, one.nullable and one.name not in keys) for one in schema]
        )
        own = ("kvSeparator", *PROTOBUF_OPTIONS)
        options = {name: value for name, value in complete.options.items() if name not in own}
        return RecordFormat(
            complete.kind,
            schema,
            separator=complete.separator or ",",
            kv_separator=complete.options.get("kvSeparator", _KV_SEPARATOR),
            escape=complete.escape,
            encoding=_encoding_named(complete.encoding),
            time_zone=self.zone,
            options=options,
            keys=keys,
            order_by=order_by,
            descriptor=descriptor,
            message=message,
        )

    def _column(self, schema: StructType, setting: str, name: str) -> str:
        """The schema's name of a column that can be compared."""
        found = next((one for one in schema if one.name.lower() == name.lower()), None)
        if found is None:
            raise ConfigurationError(f"{setting} is {name}, which the schema has not; it has {', '.join(schema.names)}")
        if found.dataType.typeName() not in PLAIN_TYPES:
            raise ConfigurationError(
                f"{setting} is {name}, of type {found.dataType.simpleString()}; name a plain column"
            )
        return found.name

    def _check_separators(self, settings: StreamFormat) -> None:
        characters = {"separator": settings.separator, "escape": settings.escape}
        if settings.kind == "kv":
            characters["kvSeparator"] = settings.options.get("kvSeparator", _KV_SEPARATOR)
        given = {name: value for name, value in characters.items() if value is not None}
        for name, value in given.items():
            if settings.kind not in _SEPARATORS:
                raise ConfigurationError(f"{name} is for csv and kv, and the format is {settings.kind}; remove it")
            if not value or (len(value) > 1 and not _has_quotes(settings)):
                raise ConfigurationError(f"{name} is {value!r}; it must be one character")
        if len(set(given.values())) < len(given):
            raise ConfigurationError(f"{' and '.join(characters)} must be different characters")

    def _check_options(self, settings: StreamFormat) -> None:
        kind = "csv without quotes" if settings.kind == "csv" and not _has_quotes(settings) else settings.kind
        for name in settings.options:
            if name == "quote" and settings.kind == "csv" and not settings.options[name]:
                continue
            if name not in _OPTIONS[kind]:
                raise ConfigurationError(f"{name} is no format option of {kind}; {nearest(name, _OPTIONS[kind])}")

    @property
    def zone(self) -> str:
        """Java's and Python's name of the time zone."""
        return "UTC" if self.time_zone is None else zone_named(self.time_zone).key

    def _complete(self) -> StreamFormat:
        """The settings with what the InLong stream says where they say nothing."""
        if self.schema_from_inlong is None:
            schema = self.schema or ""
            ddl = _read(schema, "schema") if schema.strip().lower().endswith((".ddl", ".avsc")) else schema
            found = StreamFormat(self.format or "raw", ddl)
        else:
            where = text = self.schema_from_inlong
            if text.lstrip().startswith("{"):
                where = "the stream's definition"
            else:
                text = _read(text, "schema-from-inlong")
            try:
                found = parse_stream(text, self.format)
            except ValueError as error:
                raise ConfigurationError(f"{where} {error}") from None
            if self.separator is None and found.separator is None and found.kind in _SEPARATORS:
                raise ConfigurationError(f"{where} has no dataSeparator; say separator")
        options = dict(found.options)
        if self.escape is not None:
            options.pop("quote", None)  # a stream without an escape character has no quotes either
        for name, text in self.format_options.items():
            options[name] = _character(text) if name in _CHARACTERS else text
        return replace(
            found,
            separator=found.separator or _SEPARATORS.get(found.kind)
            if self.separator is None
            else _character(self.separator),
            escape=found.escape if self.escape is None else _character(self.escape),
            encoding=self.encoding or found.encoding,
            options=options,
        )


def _parsed(ddl: str) -> StructType:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    try:
        with pinned(SparkSession.active()):
            schema = StructType.fromDDL(ddl)
    except PySparkException as error:
        reason = " ".join(line.strip() for line in str(error).split("== SQL")[0].split("\n"))
        raise ConfigurationError(f"the schema cannot be parsed: {reason.strip()}") from None
    if not isinstance(schema, StructType):
        raise ConfigurationError(f"the schema {ddl!r} names no column; write names and types")
    return schema


def _has_quotes(settings: StreamFormat) -> bool:
    return settings.kind == "csv" and settings.escape is None and settings.options.get("quote") != ""


_NEED_A_FORMAT: Final = ("schema", "separator", "escape", "encoding", "format_options", "key", "order_by")


def _character(text: str) -> str:
    """A character as it is, or as \\t or \\u0001, which shells and TOML do not change."""
    found = re.fullmatch(r"\\u([0-9a-fA-F]{4})", text)
    return "\t" if text == "\\t" else text if found is None else chr(int(found[1], 16))


def _encoding_named(name: str) -> str:
    """Java's name of an encoding, by any name that Python has for it. ConfigurationError: not one of `ENCODINGS`."""
    try:
        return next(java for java in ENCODINGS if codecs.lookup(java) == codecs.lookup(name))
    except (LookupError, ValueError, StopIteration):  # ValueError: a character that no name has
        raise ConfigurationError(f"encoding is {name!r}; there are {', '.join(ENCODINGS)}") from None


def _read(path: str, name: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigurationError(f"{name} names the file {path}, which cannot be read: {reason}") from None
