"""A stream's definition, in the JSON of InLong's Manager: its fields as Spark's columns, and its format. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tubeclient.records.spec import KINDS


@dataclass(frozen=True, slots=True)
class StreamFormat:
    """What is said of a stream's records."""

    kind: str
    """raw, json, csv, kv, protobuf, canal-json or debezium-json."""
    ddl: str
    """The columns as in CREATE TABLE."""
    separator: str | None = None
    escape: str | None = None
    encoding: str = "UTF-8"
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of the format."""


def parse_stream(text: str, kind: str | None = None) -> StreamFormat:
    """Parse a stream's JSON, or the Manager's answer with the stream in `data`. `kind` overrides its dataType.

    Fields that are not in a record's body are left out: meta fields, and predefined ones, which are attributes. A raw
    stream has no columns. Raises ValueError with the end of a sentence.
    """
    document = _document(text)
    own = str(document.get("dataType") or "").lower()
    kind = kind or _CHANGES.get(own, own)
    if kind == own == "raw":
        return StreamFormat(kind, "")
    if kind in ("pb", "avro"):
        # Manager gives Sort a PbConfig without a descriptor, and has no operator for AVRO (apache/inlong a6c7a6a670:
        # PbDataTypeOperator.java, manager-service/datatype).
        what = "Avro; give schema, an .avsc file, instead"
        if kind == "pb":
            what = "protobuf; set format protobuf, and the format options descFilePath and messageName"
        raise ValueError(f"does not define its records, which are {what}")
    if kind not in KINDS:
        raise ValueError(f"has dataType {document.get('dataType')!r}; set format json, csv or kv if records have it")
    formats: dict[str, set[str]] = {}
    columns = _columns(document, formats)
    options = {} if kind == "protobuf" else _time_options(formats)  # its times are not texts
    escape = separator = None
    if kind in ("csv", "kv"):
        separator = _character(document, "dataSeparator")
        escape = _character(document, "dataEscapeChar")
    if kind == "kv" and document.get("lineSeparator"):
        raise ValueError("has a lineSeparator, so a record may have several rows, which is not supported here")
    if kind == "kv" and (between := _character(document, "kvSeparator")) is not None:
        options["kvSeparator"] = between
    if kind == "csv" and escape is None:
        # InLong's csv has no quotes.
        options["quote"] = ""
    ddl = ", ".join(f"{_quoted(name)} {type_}" for name, type_ in columns.items())
    encoding = str(document.get("dataEncoding") or "UTF-8")
    return StreamFormat(kind, ddl, separator, escape, encoding, options)


def columns_of(text: str) -> dict[str, str]:
    """Spark's type of each column of a stream, in its order. As `parse_stream`."""
    return _columns(_document(text), {})


def _document(text: str) -> Mapping[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON: {error}") from None
    if isinstance(document, Mapping) and isinstance(document.get("data"), Mapping):
        document = document["data"]
    if not isinstance(document, Mapping) or not isinstance(document.get("fieldList"), list):
        raise ValueError("has no fieldList; it must be one stream as InLong's Manager returns it from stream/get")
    return document


def _columns(document: Mapping[str, Any], formats: dict[str, set[str]]) -> dict[str, str]:
    fields = [entry for entry in document["fieldList"] if isinstance(entry, Mapping)]
    fields = [entry for entry in fields if not _is_set(entry, "isMetaField", "isPredefinedField")]
    if not fields:
        raise ValueError("has no fields in fieldList")
    columns: dict[str, str] = {}
    for entry in fields:
        name = _name(entry)
        if name in columns:
            raise ValueError(f"has the field {name} twice")
        columns[name] = _type(name, entry.get("fieldType"), entry.get("fieldFormat"), formats)
    return columns


_CHANGES: Final = {"canal": "canal-json", "debezium_json": "debezium-json"}
"""Data types of InLong's whose records are changes."""

_TYPES: Final[Mapping[str, str]] = {
    name: spark
    for spark, names in {
        "BOOLEAN": "BOOLEAN",
        "TINYINT": "TINYINT BYTE INT8",
        "SMALLINT": "SMALLINT SHORT INT16",
        "INT": "INT INTEGER INT32",
        "BIGINT": "BIGINT LONG INT64",
        "DECIMAL(38,0)": "LARGEINT",
        "FLOAT": "FLOAT FLOAT4 FLOAT32",
        "DOUBLE": "DOUBLE FLOAT8 FLOAT64",
        "STRING": "STRING TEXT CHAR VARCHAR TIME JSON KEYWORD",
        "BINARY": "BINARY VARBINARY FIXED",
        "DATE": "DATE",
        "TIMESTAMP": "TIMESTAMP DATETIME TIMESTAMPTZ LOCAL_ZONE_TIMESTAMP",
    }.items()
    for name in names.split()
}

_SPARKS_OWN: Final = ("", "SQL", "ISO_8601")
"""Formats of times that Spark reads without being told."""
_NUMBERS: Final = ("SECONDS", "MILLISECONDS", "MICROSECONDS", "MILLIS", "MICROS")
"""As Manager has them (FieldInfoUtils), and as Sort does (TimestampFormatInfo)."""


def _type(name: str, given: object, form: object, formats: dict[str, set[str]]) -> str:
    """Spark's type of a field of Manager's FieldType, and in `formats` how its times are written, by Spark's type."""
    text, form = str(given or "").strip().upper(), str(form or "").strip()
    plain, bracket, rest = text.partition("(")
    plain = plain.strip()
    if plain == "DECIMAL" and bracket:
        return f"DECIMAL({rest}"
    if plain in ("DECIMAL", "ARRAY", "MAP", "STRUCT"):
        try:
            return _of_format(name, plain, json.loads(form), formats)
        except (RecursionError, json.JSONDecodeError, KeyError, TypeError):
            inside = "write fieldType DECIMAL(precision,scale)" if plain == "DECIMAL" else "it is in fieldFormat"
            what = "the precision of" if plain == "DECIMAL" else "the contents of"
            raise ValueError(f"does not say {what} the {plain} field {name}; {inside}") from None
    found = _TYPES.get(plain)
    if found is None:
        raise ValueError(
            f"has the field {name} of type {text or 'none'}, which Spark has no type for; give schema instead"
        )
    if found in ("TIMESTAMP", "DATE"):
        formats.setdefault(found, set()).add("" if form in _SPARKS_OWN else form)
    return found


def _of_format(name: str, plain: str, form: Mapping[str, Any], formats: dict[str, set[str]]) -> str:
    """The type that a fieldFormat says: DecimalFormat, ArrayFormat, MapFormat, StructFormat."""

    def part(of: Mapping[str, Any], which: str) -> str:
        return _type(name, of[f"{which}Type"], of.get(f"{which}Format"), formats)

    if plain == "DECIMAL":
        return f"DECIMAL({int(form['precision'])},{int(form['scale'])})"
    if plain == "ARRAY":
        return f"ARRAY<{part(form, 'element')}>"
    if plain == "MAP":
        return f"MAP<{part(form, 'key')}, {part(form, 'value')}>"
    inside = ", ".join(f"{_quoted(_name(element))}: {part(element, 'field')}" for element in form["elements"])
    return f"STRUCT<{inside}>"


def _time_options(formats: Mapping[str, set[str]]) -> dict[str, str]:
    """Spark has one format for all timestamps, and one for all dates."""
    options = {}
    for kind, name in (("TIMESTAMP", "timestampFormat"), ("DATE", "dateFormat")):
        found = formats.get(kind, {""})
        if numbers := found.intersection(_NUMBERS):
            raise ValueError(f"has a field with times as numbers ({min(numbers)}); give schema, with BIGINT for it")
        if len(found) > 1:
            raise ValueError(f"has fields of type {kind} in several formats; give schema, with STRING for some")
        if found != {""}:
            [options[name]] = found
    return options


def _character(document: Mapping[str, Any], name: str) -> str | None:
    """A character, which the Manager has as its code: "124" is |."""
    text = str(document.get(name) or "")
    if not text.isdecimal():
        return text or None
    try:
        return chr(int(text))
    except (ValueError, OverflowError):
        raise ValueError(f"has {name} {text[:20]}, which is not a character code") from None


def _is_set(entry: Mapping[str, Any], *names: str) -> bool:
    return any(entry.get(name) in (1, True, "1") for name in names)


def _name(entry: Mapping[str, Any]) -> str:
    name = entry.get("fieldName")
    if not isinstance(name, str) or not name:
        raise ValueError("has a field without fieldName")
    return name


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
