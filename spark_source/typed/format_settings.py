"""What users say of their records' format, checked; and how a `RecordFormat` comes of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from spark_source.options.settings_file import dashed
from spark_source.read.schema import spark_type
from spark_source.typed.record_format import RecordFormat, arrow_columns, pinned
from spark_source.typed.selection import SelectedColumn, Selection
from tubeclient.errors import ConfigurationError
from tubeclient.records import Decoder, RecordSpec
from tubeclient.records.avro_schema import columns_of_schema
from tubeclient.records.inlong_stream import StreamFormat, parse_stream
from tubeclient.records.protobuf_types import columns_of_message, message_type
from tubeclient.records.spec import BINARY, CHANGES, KINDS, check_rescue
from tubeclient.records.spec import OPTIONS as RECORD_OPTIONS
from tubeclient.wire.message_time import zone_named

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["FormatSettings"]

_KINDS: Final = ("raw", *KINDS)

OF_ARRIVAL: Final = "arrival"
"""As the column that orders the rows of a key: that of a partition which came last is the newest."""

_SEPARATORS: Final = {"csv": ",", "kv": "&"}
_CHARACTERS: Final = ("kvSeparator", "quote", "escape", "charToEscapeQuoteEscaping")
"""Options that are a character."""


@dataclass(frozen=True, kw_only=True)
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
    """The column that orders the rows of a key, of which `CHANGES` have none; or `OF_ARRIVAL`."""
    rescue: str = "none"
    """none, fields or values, as RecordSpec has it."""
    select: str | None = None
    """What rows have in place of the schema's columns: a list as behind SELECT, in DuckDB's SQL, or a path that ends in
    .sql."""

    def __post_init__(self) -> None:
        self.check_format(self.format)
        if self.schema is not None and self.schema_from_inlong is not None:
            raise ConfigurationError("schema and schema-from-inlong both define the columns; remove one")
        complete, _ = self._complete, self.zone
        check_rescue(self.rescue, complete.kind)
        if complete.kind == "raw":
            given = sorted(name for name in _NEED_A_FORMAT if getattr(self, name))
            if given:
                name = dashed(given[0])
                raise ConfigurationError(
                    f"{name} is given, but the format is raw; set format to {', '.join(_KINDS[1:-1])} or {_KINDS[-1]}"
                )
            return
        if self.order_by is not None and (complete.kind in CHANGES or not self.key):
            need = (
                "key is not given; name the columns that identify a row"
                if not self.key
                else f"{complete.kind} already says it"
            )
            raise ConfigurationError(f"order-by says which row of a key is the newest, but {need}")
        if self.key and self.order_by is None and complete.kind not in CHANGES:
            raise ConfigurationError(
                "key is given, but nothing says which row of a key is the newest, because partitions have no common "
                f"order. Give order-by: a column whose greatest value is the newest; or {OF_ARRIVAL}, if all rows of "
                "a key are sent to one partition"
            )
        if complete.kind in BINARY and self.encoding not in (None, "UTF-8"):
            raise ConfigurationError(f"encoding is for text formats, but the format is {complete.kind}; remove it")
        for name, given_text in (("separator", complete.separator), ("escape", complete.escape)):
            if given_text is not None and complete.kind not in _SEPARATORS:
                raise ConfigurationError(f"{name} is for csv and kv, but the format is {complete.kind}; remove it")
        if complete.kind not in BINARY and not complete.ddl.strip():
            raise ConfigurationError(
                f"format {complete.kind} needs a schema, such as 'id BIGINT, name STRING', or schema-from-inlong"
            )
        Decoder(self._spec, core=False)  # says what does not fit

    @staticmethod
    def check_format(name: str | None) -> None:
        """ConfigurationError for a name that is no format's."""
        if name is not None and name not in _KINDS:
            raise ConfigurationError(f"format is {name!r}; use one of {', '.join(_KINDS)}")

    @property
    def kind(self) -> str:
        """raw, json, csv, kv, avro, protobuf, canal-json or debezium-json."""
        return self._complete.kind

    def record_format(self) -> RecordFormat:
        """The format with its schema. Needs a running Spark, which parses the schema. Raises ConfigurationError."""
        complete = self._complete
        if complete.kind == "raw":
            return RecordFormat()
        spec = self._spec
        has_own = complete.kind == "avro" or not complete.ddl.strip()
        schema = _own_columns(spec) if has_own else _parsed(complete.ddl)
        columns = [SelectedColumn(name, (name,)) for name in schema.names]
        selection = None
        if self.select is not None:
            text = _read(self.select, "select") if self.select.strip().lower().endswith(".sql") else self.select
            selection = _selection(text, arrow_columns(schema), self.zone)
            columns = [*selection.outputs]
        keys = tuple(_plain(schema, columns, "key", name).needs[0] for name in self.key)
        order_by = self.order_by
        if order_by == OF_ARRIVAL and OF_ARRIVAL in (column.name.lower() for column in columns):
            raise ConfigurationError(
                f"order-by is {OF_ARRIVAL}, the order in which rows of a partition arrive, but the schema has a "
                "column of that name; rename the column"
            )
        order_by = None if order_by in (None, OF_ARRIVAL) else _plain(schema, columns, "order-by", order_by).name
        if order_by is not None and order_by.lower() in ("round", "place"):
            raise ConfigurationError(
                f"order-by is {order_by}, but change.sequence has its own field of that name; rename the column"
            )
        return RecordFormat.of(schema, replace(spec, keys=keys), order_by, selection)

    @cached_property
    def _spec(self) -> RecordSpec:
        """What is known before Spark runs: all but the columns and the keys."""
        complete = self._complete
        schema, descriptor, message = pa.schema([]), b"", ""
        if complete.kind == "protobuf":
            descriptor, message = _described(complete.options)
        elif complete.kind == "avro":
            schema, descriptor = columns_of_schema(complete.ddl, complete.options), complete.ddl.encode()
        return RecordSpec(
            kind=complete.kind,
            schema=schema,
            separator="," if complete.separator is None else complete.separator,
            escape=complete.escape,
            encoding=complete.encoding,
            time_zone=self.zone,
            options=complete.options,
            descriptor=descriptor,
            message=message,
            rescue=self.rescue,
        )

    @property
    def zone(self) -> str:
        """Java's and Python's name of the time zone."""
        return "UTC" if self.time_zone is None else zone_named(self.time_zone).key

    @cached_property
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
                raise ConfigurationError(f"{where} has no dataSeparator; set separator")
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


def _plain(schema: StructType, columns: Sequence[SelectedColumn], setting: str, name: str) -> SelectedColumn:
    """The one of `columns`, of records with this schema, that can be compared. ConfigurationError."""
    found = next((column for column in columns if column.name.lower() == name.lower()), None)
    if found is None:
        names = ", ".join(column.name for column in columns)
        raise ConfigurationError(f"{setting} is {name}, which the rows do not have; they have {names}")
    if found.sql:
        raise ConfigurationError(f"{setting} is {name}, which select computes; name a column that it keeps unchanged")
    kind = schema[found.needs[0]].dataType
    if kind.typeName() in ("array", "map", "struct", "binary", "variant"):
        raise ConfigurationError(f"{setting} is {name}, of type {kind.simpleString()}; name a plain column")
    return found


@lru_cache(256)
def _selection(text: str, columns: pa.Schema, zone: str) -> Selection:
    """Once for each text, as `_parsed`: DuckDB is asked some times for each expression."""
    return Selection.of(text, columns, zone)


@lru_cache(256)
def _parsed(ddl: str) -> StructType:
    """Once for each text: a job asks for it whenever its tables are opened anew, and Spark takes its time."""
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
        raise ConfigurationError(f"the schema {ddl!r} has no columns; write names and types")
    return schema


def _described(options: Mapping[str, str]) -> tuple[bytes, str]:
    """The descriptor file's bytes, which tasks get, and the message's name. ConfigurationError: an option is missing,
    or the file cannot be read or has no such message."""
    path, name = map(options.get, RECORD_OPTIONS["protobuf"])
    if not path or not name:
        raise ConfigurationError(
            "format protobuf needs the format options descFilePath, a file of protoc --include_imports"
            " --descriptor_set_out=FILE, and messageName"
        )
    try:
        descriptor = Path(path).read_bytes()
        message_type(descriptor, name)
    except OSError as error:
        raise ConfigurationError(
            f"descFilePath names the file {path}, which cannot be read: {error.strerror}"
        ) from None
    except ConfigurationError as error:
        raise ConfigurationError(f"descFilePath is {path}: {error}") from None
    return descriptor, name


def _own_columns(spec: RecordSpec) -> StructType:
    """A column for each field of an Avro record or a Protobuf message. ConfigurationError: that has none, or itself
    within."""
    from pyspark.sql.types import StructField, StructType

    columns = spec.schema if spec.kind == "avro" else columns_of_message(message_type(spec.descriptor, spec.message))
    return StructType([StructField(column.name, spark_type(column.type)) for column in columns])


_NEED_A_FORMAT: Final = ("schema", "separator", "escape", "encoding", "format_options", "key", "order_by", "select")


def _character(text: str) -> str:
    """A character as it is, or as \\t or \\u0001, which shells and TOML do not change."""
    found = re.fullmatch(r"\\u([0-9a-fA-F]{4})", text)
    return "\t" if text == "\\t" else text if found is None else chr(int(found[1], 16))


def _read(path: str, name: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigurationError(f"{name} names the file {path}, which cannot be read: {reason}") from None
