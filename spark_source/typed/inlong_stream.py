"""A stream's definition, in the JSON of InLong's Manager: its fields as Spark's columns, and its format. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["StreamFormat", "parse_stream"]


@dataclass(frozen=True, slots=True)
class StreamFormat:
    """What is said of a stream's records."""

    kind: str
    """raw, json, csv or kv."""
    ddl: str
    """The columns as in CREATE TABLE."""
    separator: str | None = None
    escape: str | None = None
    encoding: str = "UTF-8"
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of the format."""


def parse_stream(text: str, kind: str | None = None) -> StreamFormat:
    """Parse a stream's JSON, or the Manager's answer with the stream in `data`. `kind` overrides its dataType.

    Fields that are not in a record's body are left out: meta fields, and predefined ones, which are attributes. Raises
    ValueError with the end of a sentence.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON: {error}") from None
    if isinstance(document, Mapping) and isinstance(document.get("data"), Mapping):
        document = document["data"]
    if not isinstance(document, Mapping) or not isinstance(document.get("fieldList"), list):
        raise ValueError("has no fieldList; it must be one stream of InLong's Manager, as its stream/get answers")
    kind = kind or str(document.get("dataType") or "").lower()
    if kind in ("pb", "avro"):
        # The Manager gives Sort a PbConfig without a descriptor, and has no operator for AVRO (apache/inlong
        # a6c7a6a670: PbDataTypeOperator.java, manager-service/datatype).
        what = "protobuf, which can only be had as raw" if kind == "pb" else "Avro; give schema, an .avsc file, instead"
        raise ValueError(f"does not define its records, which are {what}")
    if kind not in ("json", "csv", "kv"):
        raise ValueError(f"has dataType {document.get('dataType')!r}; say format json, csv or kv if records have it")
    fields = [one for one in document["fieldList"] if isinstance(one, Mapping)]
    fields = [one for one in fields if not _is_set(one, "isMetaField", "isPredefinedField")]
    if not fields:
        raise ValueError("has no fields in fieldList")
    options = _time_options(fields)
    escape = separator = None
    if kind != "json":
        separator = _character(document, "dataSeparator")
        escape = _character(document, "dataEscapeChar")
    if kind == "kv" and (between := _character(document, "kvSeparator")) is not None:
        options["kvSeparator"] = between
    if kind == "csv" and escape is None:
        # InLong's csv has no quotes.
        options["quote"] = ""
    ddl = ", ".join(f"{_quoted(_name(one))} {_type(one)}" for one in fields)
    encoding = str(document.get("dataEncoding") or "UTF-8")
    return StreamFormat(kind, ddl, separator, escape, encoding, options)


_TYPES: Final[Mapping[str, str]] = {
    one: spark
    for spark, names in {
        "BOOLEAN": "BOOLEAN",
        "TINYINT": "TINYINT BYTE INT8",
        "SMALLINT": "SMALLINT SHORT INT16",
        "INT": "INT INTEGER INT32",
        "BIGINT": "BIGINT LONG INT64",
        "DECIMAL(38,0)": "LARGEINT",
        "FLOAT": "FLOAT FLOAT4 FLOAT32",
        "DOUBLE": "DOUBLE FLOAT8 FLOAT64",
        "STRING": "STRING TEXT CHAR VARCHAR TIME JSON",
        "DATE": "DATE",
        "TIMESTAMP": "TIMESTAMP DATETIME TIMESTAMPTZ LOCAL_ZONE_TIMESTAMP",
    }.items()
    for one in names.split()
}

_SPARKS_OWN: Final = ("", "SQL", "ISO_8601")
"""Formats of times that Spark reads without being told."""
_NUMBERS: Final = ("SECONDS", "MILLISECONDS", "MICROSECONDS")


def _type(one: Mapping[str, Any]) -> str:
    text = str(one.get("fieldType") or "").strip().upper()
    plain, bracket, rest = text.partition("(")
    if plain.strip() == "DECIMAL":
        return f"DECIMAL({rest}" if bracket else _decimal(one)
    found = _TYPES.get(plain.strip())
    if found is None:
        raise ValueError(
            f"has the field {_name(one)} of type {text or 'none'}, for which there is no type of Spark; give schema"
            " instead"
        )
    return found


def _decimal(one: Mapping[str, Any]) -> str:
    try:
        found = json.loads(one.get("fieldFormat") or "{}")
        return f"DECIMAL({int(found['precision'])},{int(found['scale'])})"
    except (ValueError, KeyError, TypeError):
        raise ValueError(
            f"does not say the precision of the DECIMAL field {_name(one)}; write fieldType DECIMAL(precision,scale)"
        ) from None


def _time_options(fields: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Spark has one format for all timestamps, and one for all dates."""
    options = {}
    for kind, name in (("TIMESTAMP", "timestampFormat"), ("DATE", "dateFormat")):
        formats = {str(one.get("fieldFormat") or "").strip() for one in fields if _type(one) == kind}
        formats = {"" if text in _SPARKS_OWN else text for text in formats}
        if formats.intersection(_NUMBERS):
            raise ValueError(f"has a field with times as numbers ({min(formats)}); give schema, with BIGINT for it")
        if len(formats) > 1:
            raise ValueError(f"has fields of type {kind} in several formats; give schema, with STRING for some")
        if formats and formats != {""}:
            options[name] = formats.pop()
    return options


def _character(document: Mapping[str, Any], name: str) -> str | None:
    """A character, which the Manager has as its code: "124" is |."""
    text = str(document.get(name) or "")
    if not text.isdecimal():
        return text or None
    try:
        return chr(int(text))
    except (ValueError, OverflowError):
        raise ValueError(f"has {name} {text[:20]}, which is no character's code") from None


def _is_set(one: Mapping[str, Any], *names: str) -> bool:
    return any(one.get(name) in (1, True, "1") for name in names)


def _name(one: Mapping[str, Any]) -> str:
    name = one.get("fieldName")
    if not isinstance(name, str) or not name:
        raise ValueError("has a field without fieldName")
    return name


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
