"""What values are that Debezium writes with a schema: days, parts of seconds, bytes of decimals, bits.

With the converter's `schemas.enable=true` each event has a schema, whose fields name logical types. Without it a number
of days and a number of pieces cannot be told apart. The names and their meanings are from Debezium's sources at
aad55199 (3.7.0-SNAPSHOT), io.debezium.time and io.debezium.data, and Kafka Connect's org.apache.kafka.connect.data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, NamedTuple

from tubeclient.records.fault import BadRecord
from tubeclient.records.json_text import STRICT, WHOLE, Node, fields_of, parse_value
from tubeclient.records.spec import Column, RecordSpec
from tubeclient.records.times import DAYS_OF_1970
from tubeclient.records.values import Values, bytes_of

_DEBEZIUM, _CONNECT = "io.debezium.time.", "org.apache.kafka.connect.data."
_DATES: Final = (f"{_DEBEZIUM}Date", f"{_CONNECT}Date")
"""Days since 1970."""
_CLOCKS: Final = {
    f"{_DEBEZIUM}Time": 1_000,
    f"{_CONNECT}Time": 1_000,
    f"{_DEBEZIUM}MicroTime": 1_000_000,
    f"{_DEBEZIUM}NanoTime": 1_000_000_000,
}
"""Pieces of a second since midnight. MySQL's TIME is a length of time, and may be negative or longer than a day."""
_MOMENTS: Final = {
    f"{_DEBEZIUM}Timestamp": 1_000,
    f"{_CONNECT}Timestamp": 1_000,
    f"{_DEBEZIUM}MicroTimestamp": 1_000_000,
    f"{_DEBEZIUM}NanoTimestamp": 1_000_000_000,
}
"""Pieces of a second since 1970 of a time without a zone, as if its clock were UTC's."""
_ISO: Final = (f"{_DEBEZIUM}IsoDate", f"{_DEBEZIUM}IsoTime", f"{_DEBEZIUM}IsoTimestamp")
"""Texts of times without a zone, with a Z behind them."""
_DECIMAL: Final = f"{_CONNECT}Decimal"
_VARIABLE: Final = "io.debezium.data.VariableScaleDecimal"
_BITS: Final = "io.debezium.data.Bits"
_JSON: Final = "io.debezium.data.Json"
_KNOWN: Final = {*_DATES, *_CLOCKS, *_MOMENTS, *_ISO, _DECIMAL, _VARIABLE, _BITS, _JSON}
"""Others are read by their column's type alone: ZonedTimestamp, ZonedTime, Enum, EnumSet, Uuid and Xml are texts, and
Year is a number."""

_MOST_BYTES: Final = 400
"""Of a decimal. Python makes digits of no more than some thousand."""
_MOST_SCALE: Final = 1_000
_SCHEMAS: Final = 100
"""How many schemas are kept. Each message has its table's."""


class Logical(NamedTuple):
    """What a field of the schema says."""

    name: str = ""
    """The logical type's name; "" where the JSON says all."""
    size: int = 0
    """A decimal's scale, or how many bits there are."""
    fields: Mapping[str, Logical] = {}
    """Of a struct, those of which there is something to say."""
    item: Logical | None = None
    """Of a list's items, or a map's values."""


Types = Mapping[str, Logical]
"""Of a row's columns, those of which there is something to say."""


@lru_cache(_SCHEMAS)
def row_types(schema: str) -> dict[str, Types]:
    """The types of the rows `before` and `after`, of the text of an envelope's schema. What is no such schema has
    none. BadRecord: it is no JSON."""
    found = _logical(parse_value(schema, 0, STRICT))
    return {} if found is None else {name: found.fields[name].fields for name in found.fields}


def types_for_core(schema: str) -> dict[str, tuple[str, int]] | None:
    """The types of the rows of an envelope's schema, as the core is told; None if `before` and `after` differ."""
    try:
        rows = row_types(schema) if schema.startswith("{") else {}
    except BadRecord:
        return None
    before, after = rows.get("before", {}), rows.get("after", {})
    return {name: _for_core(logical) for name, logical in after.items()} if before == after else None


def _for_core(logical: Logical) -> tuple[str, int]:
    if logical.name in _DATES:
        return "date", 0
    if logical.name in _MOMENTS:
        return "moment", _MOMENTS[logical.name]
    return ("decimal", logical.size) if logical.name == _DECIMAL else ("other", 0)


def _logical(node: Node) -> Logical | None:
    """None: nothing to say."""
    if node.kind != "object":
        return None
    fields = dict(node.value)
    name = _text(fields.get("name"))
    if name in _KNOWN:
        parameters = fields.get("parameters")
        given = dict(parameters.value) if parameters is not None and parameters.kind == "object" else {}
        size = _text(given.get("scale")) or _text(given.get("length"))
        if re.fullmatch(r"-?[0-9]{1,6}", size) is None:  # a decimal's bytes say nothing without it
            return None if name == _DECIMAL else Logical(name)
        return Logical(name, int(size))
    inner = fields.get("fields")
    parts = {}
    for field in inner.value if inner is not None and inner.kind == "list" else ():
        part = _logical(field)
        if part is not None:
            parts[_text(dict(field.value).get("field"))] = part
    items = fields.get("items") or fields.get("values")
    item = None if items is None else _logical(items)
    return Logical(fields=parts, item=item) if parts or item is not None else None


def _text(node: Node | None) -> str:
    return str(node.value) if node is not None and node.kind in ("text", "number") else ""


class LogicalValues:
    """Values of columns, by their types in the envelope's schema."""

    def __init__(self, spec: RecordSpec) -> None:
        self._plain = Values(spec)
        # What is made of a number is written as ISO 8601 has it, whatever the record's own texts are like.
        self._iso = Values(replace(spec, options={}))

    def begin(self) -> None:
        """A record begins."""
        self._plain.begin()
        self._iso.begin()

    def of_node(self, node: Node, logical: Logical | None, column: Column, text: str, path: str) -> Any:
        """The value of a node of the JSON `text`. BadRecord: it is not of the column's type."""
        if logical is None or node.kind == "null":
            return self._plain.of_node(node, column, text, path)
        if column.kind == "list" and node.kind == "list":
            (item,) = column.parts
            return [
                self.of_node(value, logical.item, item, text, f"{path}[{at}]") for at, value in enumerate(node.value)
            ]
        if column.kind == "struct" and node.kind == "object" and logical.name != _VARIABLE:
            self._plain.take(len(column.parts), node.start)
            fields = fields_of(node, path, {part.name for part in column.parts})
            return {
                part.name: None
                if (value := fields.get(part.name)) is None
                else self.of_node(value, logical.fields.get(part.name), part, text, f"{path}.{part.name}")
                for part in column.parts
            }
        if logical.name == _JSON and column.kind == "variant" and node.kind == "text":
            return self._json(node, column, path)
        # A VARIANT has the JSON as it is; and no list, map or struct is a text.
        written = None if column.parts or column.kind == "variant" else _written(node, logical, column, path)
        if written is None:
            return self._plain.of_node(node, column, text, path)
        return self._iso.of_text(written, column, path, node.start)

    def _json(self, node: Node, column: Column, path: str) -> Any:
        inner = node.value
        try:
            value = parse_value(inner, 0, STRICT, False)
            if inner[value.end :].strip():
                raise BadRecord(path)
            return self._iso.of_node(value, column, inner, path)
        except BadRecord:
            raise BadRecord(f"{path} is text that is not JSON", node.start) from None


def _written(node: Node, logical: Logical, column: Column, path: str) -> str | None:
    """What a value is, as a text of the column's type; None if the JSON says it."""
    name = logical.name
    is_whole = node.kind == "number" and WHOLE.fullmatch(node.value) is not None
    if is_whole and column.kind not in ("int", "float", "decimal"):
        if name in _DATES:
            return _date(int(node.value), path, node.start)
        if name in _CLOCKS:
            return _clock(int(node.value), _CLOCKS[name])
        if name in _MOMENTS:
            pieces = _MOMENTS[name]
            day, rest = divmod(int(node.value), 86_400 * pieces)
            clock = "" if column.kind == "date" and not rest else f" {_clock(rest, pieces)}"
            return _date(day, path, node.start) + clock
    if name in _ISO and node.kind == "text" and column.kind != "string":
        return str(node.value).removesuffix("Z")
    if name == _DECIMAL and node.kind == "text":
        return _decimal(node.value, logical.size)
    if name == _VARIABLE and node.kind == "object" and column.kind != "struct":
        fields = fields_of(node, path, ("scale", "value"))
        scale = _text(fields.get("scale"))
        return _decimal(_text(fields.get("value")), int(scale)) if re.fullmatch(r"-?[0-9]{1,6}", scale) else None
    if name == _BITS and node.kind == "text" and column.kind != "binary":
        return _bits(node.value, logical.size, column)
    return None


def _date(day: int, path: str, pos: int) -> str:
    try:
        return date.fromordinal(DAYS_OF_1970 + day).isoformat()
    except (ValueError, OverflowError):
        raise BadRecord(f"{path} is outside the years 1 to 9999", pos) from None


def _clock(count: int, pieces: int) -> str:
    second, rest = divmod(abs(count), pieces)
    fraction = f".{rest:0{len(str(pieces)) - 1}}".rstrip("0") if rest else ""
    return f"{'-' * (count < 0)}{second // 3_600:02}:{second // 60 % 60:02}:{second % 60:02}{fraction}"


def _decimal(text: str, scale: int) -> str | None:
    """Bytes of a whole number, the most significant first, in two's complement; None if it is none."""
    data = bytes_of(text)
    if data is None or not 0 < len(data) <= _MOST_BYTES or abs(scale) > _MOST_SCALE:
        return None
    number = int.from_bytes(data, "big", signed=True)
    return format(Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale)), "f")


def _bits(text: str, length: int, column: Column) -> str | None:
    """Bits, the least significant byte first: a number's digits, or in a STRING the bits themselves."""
    data = bytes_of(text)
    if data is None or len(data) > _MOST_BYTES or length > 8 * _MOST_BYTES:
        return None
    number = int.from_bytes(data, "little")
    return f"{number:0{length}b}" if column.kind == "string" else str(number)
