"""Avro's schemas: what the bytes of a record are, and the columns that it has for Arrow.

By Avro's specification 1.12. The columns are those of Spark's from_avro, but for two types that no Delta table has:
there the column has the number that was written. A logical type that a schema uses wrongly is not one, as Avro has it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from tubeclient.errors import ConfigurationError
from tubeclient.records.spec import OPTIONS, flag


class AvroType(NamedTuple):
    """A type as a record's bytes have it."""

    name: str
    """Avro's own, such as int; the full name of a record, an enum or a fixed."""
    kind: str
    """One of `_PLAIN`; date, time, decimal, fixed, enum, array, map, record, union; members for a union whose types are
    columns of their own."""
    type: pa.DataType
    """The column's."""
    parts: tuple[AvroType, ...] = ()
    """What an array's items are, a map's values, a record's fields; the types of a union."""
    names: tuple[str, ...] = ()
    """Of a record's fields; of a union's members, "" for null; an enum's symbols."""
    size: int = 0
    """The bytes of a fixed; 0 for a decimal in bytes of any length. Microseconds in a time's unit."""

    @property
    def width(self) -> int:
        """How many values a value takes in Arrow at most, without what is in lists."""
        if self.kind in ("record", "members"):
            return sum(part.width for part in self.parts)
        return max(part.width for part in self.parts) if self.kind == "union" else 1


_PLAIN: Final = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_TIMES: Final = {
    ("int", "date"): ("date", pa.date32(), 0),
    ("long", "timestamp-millis"): ("time", pa.timestamp("us", "UTC"), 1_000),
    ("long", "timestamp-micros"): ("time", pa.timestamp("us", "UTC"), 1),
    ("long", "local-timestamp-millis"): ("time", pa.timestamp("us"), 1_000),
    ("long", "local-timestamp-micros"): ("time", pa.timestamp("us"), 1),
}
_WIDER: Final = ({"int", "long"}, {"float", "double"})
"""A union of two of these is one column."""
_FIELD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME: Final = re.compile(rf"{_FIELD.pattern}(?:\.{_FIELD.pattern})*")
_MOST_DIGITS: Final = 38
_STABLE, _PREFIX = OPTIONS["avro"]


def record_type(schema: str, options: Mapping[str, str]) -> AvroType:
    """What the JSON of a schema says. ConfigurationError: it is not an Avro schema of a record, or has a type that no
    table has."""
    record: Any = None
    reason = ""
    try:
        record = json.loads(schema)
    except (ValueError, RecursionError) as error:
        reason = f"; this is not JSON: {error}"
    if not isinstance(record, dict) or record.get("type") not in ("record", "error"):
        raise ConfigurationError(f"format avro needs a schema in an .avsc file: an Avro schema of a record{reason}")
    try:
        return _Schema(options).of(record, "", "")
    except RecursionError:
        raise ConfigurationError("the Avro schema nests too many types") from None


def columns_of_schema(schema: str, options: Mapping[str, str]) -> pa.Schema:
    """A column for each field. ConfigurationError as of `record_type`."""
    return pa.schema(list(record_type(schema, options).type))


class _Schema:
    def __init__(self, options: Mapping[str, str]) -> None:
        self._is_stable = flag(options, _STABLE)
        self._prefix = options.get(_PREFIX, "member_")
        self._named: dict[str, AvroType | None] = {}
        """By full name; None while its own fields are read."""

    def of(self, schema: Any, path: str, space: str) -> AvroType:
        """The type; `path` names it in errors, and `space` is the namespace around it."""
        if isinstance(schema, list):
            return self._union(schema, path, space)
        more = schema if isinstance(schema, dict) else {}
        kind = more.get("type") if more else schema
        if not isinstance(kind, str):
            raise _wrong(path, "has no type")
        if kind in _PLAIN:
            return _logical(AvroType(kind, kind, _PLAIN[kind]), more, path)
        if kind == "array":
            item = self._value(more.get("items"), path, space)
            return AvroType(kind, kind, pa.list_(item.type), (item,))
        if kind == "map":
            item = self._value(more.get("values"), path, space)
            return AvroType(kind, kind, pa.map_(pa.string(), item.type), (item,))
        if kind in ("record", "error", "enum", "fixed"):
            return self._define(kind, more, path, space)
        full = f"{space}.{kind}" if space and "." not in kind else kind
        known = full if full in self._named else kind  # as Avro's own parser
        if known not in self._named:
            raise _wrong(path, f"has the type {kind}, which is not defined before this place")
        found = self._named[known]
        if found is None:
            raise _wrong(path, f"is {known} within {known}, which no table can store")
        return found

    def _value(self, schema: Any, path: str, space: str) -> AvroType:
        """As `of`, of what has a column."""
        found = self.of(schema, path, space)
        if pa.types.is_null(found.type):
            raise _wrong(path, "is only null, a type that no table can store")
        return found

    def _define(self, kind: str, schema: Mapping[str, Any], path: str, space: str) -> AvroType:
        name, given = _name(schema.get("name"), path), schema.get("namespace")
        given = space if given is None else given
        full = f"{_name(given, path)}.{name}" if given and "." not in name else name
        if self._named.get(full, full) is None:
            raise _wrong(path, f"defines {full} within itself")
        before, self._named[full] = self._named.get(full), None
        if kind == "fixed":
            size = schema.get("size")
            if type(size) is not int or size < 0:
                raise _wrong(path, "has no size in bytes")
            found = _logical(AvroType(full, kind, pa.binary(), size=size), schema, path)
        elif kind == "enum":
            found = AvroType(full, kind, pa.string(), names=_names(schema.get("symbols"), path, "symbols"))
        else:
            found = self._record(full, schema, path)
        if before not in (None, found):
            raise _wrong(path, f"defines {full} again, as another type")
        self._named[full] = found
        return found

    def _record(self, full: str, schema: Mapping[str, Any], path: str) -> AvroType:
        fields = schema.get("fields")
        if not isinstance(fields, list) or not all(isinstance(field, dict) for field in fields):
            raise _wrong(path, "has no list of fields")
        names = _names([field.get("name") for field in fields], path, "fields")
        space = full.rpartition(".")[0]
        dot = f"{path}." if path else ""
        parts = tuple(
            self._value(field.get("type"), f"{dot}{name}", space) for name, field in zip(names, fields, strict=True)
        )
        kind = pa.struct([(name, part.type) for name, part in zip(names, parts, strict=True)])
        return AvroType(full, "record", kind, parts, names)

    def _union(self, schema: Sequence[Any], path: str, space: str) -> AvroType:
        parts = tuple(self.of(member, path, space) for member in schema)
        if any(isinstance(member, list) for member in schema) or len({part.name for part in parts}) < len(parts):
            raise _wrong(path, "is a union that has a type twice, or contains a union")
        others = [part for part in parts if part.kind != "null"]
        if len(others) < 2:
            kind = others[0].type if others else pa.null()
            return AvroType("union", "union", kind, parts)
        if {part.name for part in others} in _WIDER:
            plain = tuple(AvroType(part.name, part.name, _PLAIN[part.name]) for part in parts)
            return AvroType("union", "union", pa.int64() if others[0].name in _WIDER[0] else pa.float64(), plain)
        named = dict(zip(self._member_names(others, path), others, strict=True))
        numbers = iter(named)
        names = tuple("" if part.kind == "null" else next(numbers) for part in parts)
        return AvroType(
            "union", "members", pa.struct([(name, part.type) for name, part in named.items()]), parts, names
        )

    def _member_names(self, members: Sequence[AvroType], path: str) -> list[str]:
        if not self._is_stable:
            return [f"member{number}" for number in range(len(members))]
        names = [self._prefix + member.name.rpartition(".")[2] for member in members]
        if len({name.lower() for name in names}) < len(names):
            raise _wrong(path, f"is a union with two types of the same name; leave {_STABLE} out")
        return names


def _logical(plain: AvroType, schema: Mapping[str, Any], path: str) -> AvroType:
    """The logical type that a schema makes of the plain one; that itself if it makes none."""
    logical = str(schema.get("logicalType"))
    if (found := _TIMES.get((plain.kind, logical))) is not None:
        kind, column, unit = found
        return plain._replace(kind=kind, type=column, size=unit)
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if logical != "decimal" or plain.kind not in ("bytes", "fixed"):
        return plain
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or not precision:
        return plain
    if plain.kind == "fixed" and precision > math.log10(2) * (8 * plain.size - 1):
        return plain
    if precision > _MOST_DIGITS:
        raise _wrong(path, f"is a decimal of {precision} digits, but a column has at most {_MOST_DIGITS}")
    return plain._replace(kind="decimal", type=pa.decimal128(precision, scale))


def _names(found: Any, path: str, what: str) -> tuple[str, ...]:
    """Names of which none is there twice."""
    if not isinstance(found, list) or not found:
        raise _wrong(path, f"has no {what}")
    names = tuple(_name(name, path, _FIELD) for name in found)
    if len(set(names)) < len(names):
        raise _wrong(path, f"has two {what} of the same name")
    return names


def _name(found: Any, path: str, form: re.Pattern[str] = _NAME) -> str:
    if not isinstance(found, str) or form.fullmatch(found) is None:
        raise _wrong(path, "has no name, or one with characters other than letters, digits and _")
    return found


def _wrong(path: str, what: str) -> ConfigurationError:
    return ConfigurationError(f"the Avro schema cannot be used: {path or 'the record'} {what}")
