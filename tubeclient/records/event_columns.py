"""Which columns a table has, by what Debezium's and Canal's events say of it beside their rows. Pure.

Types are those that keep each value: what Spark has no type for is a STRING with what was written, such as times of
day, decimals of more than 38 digits, and structs as JSON.

Debezium's names and types are those of `logical_types`. Canal's are MySQL's, as `mysqlType` has them (Canal at
e20e4424: MQMessageUtils), with blobs as texts of a character for each byte. Canal's `pkNames` are the columns of the
primary key. They are null of a table without one (Paimon 2115). They are also null in what Canal before 1.1.4 sent to
several partitions (Canal 1876), and nothing tells the two apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from tubeclient.records.fault import BadRecord
from tubeclient.records.json_text import STRICT, Node, parse_value

__all__ = ["canal_columns", "canal_key", "changes_values", "debezium_columns", "merged_columns", "no_type"]

_MOST_DIGITS: Final = 38
_SCHEMAS: Final = 1_000
_OR: Final = " or "
_WHOLE: Final = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
"""Whole numbers, from the smallest on, with their digits."""

_OF_CONNECT: Final[Mapping[str, str]] = {
    "boolean": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INT",
    "int64": "BIGINT",
    "float": "FLOAT",
    "float32": "FLOAT",
    "double": "DOUBLE",
    "float64": "DOUBLE",
    "bytes": "BINARY",
}
_OF_DEBEZIUM: Final[Mapping[str, str]] = {
    **dict.fromkeys(("io.debezium.time.Date", "org.apache.kafka.connect.data.Date"), "DATE"),
    "io.debezium.time.IsoDate": "DATE",
    **dict.fromkeys((f"io.debezium.time.{kind}Timestamp" for kind in ("", "Micro", "Nano", "Iso")), "TIMESTAMP_NTZ"),
    "org.apache.kafka.connect.data.Timestamp": "TIMESTAMP_NTZ",
    "io.debezium.time.ZonedTimestamp": "TIMESTAMP",
    **dict.fromkeys((f"io.debezium.time.{kind}Time" for kind in ("", "Micro", "Nano", "Iso")), "STRING"),
    "org.apache.kafka.connect.data.Time": "STRING",
    "io.debezium.data.VariableScaleDecimal": "STRING",
    "io.debezium.data.Bits": "STRING",
}
_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_OF_MYSQL: Final[Mapping[str, tuple[str, str]]] = {
    "tinyint": ("TINYINT", "SMALLINT"),
    "smallint": ("SMALLINT", "INT"),
    "mediumint": ("INT", "INT"),
    **dict.fromkeys(("int", "integer"), ("INT", "BIGINT")),
    "bigint": ("BIGINT", "DECIMAL(20,0)"),
    "float": ("FLOAT", "FLOAT"),
    **dict.fromkeys(("double", "real"), ("DOUBLE", "DOUBLE")),
    "year": ("INT", "INT"),
    "date": ("DATE", "DATE"),
    "datetime": ("TIMESTAMP_NTZ", "TIMESTAMP_NTZ"),
    "timestamp": ("TIMESTAMP", "TIMESTAMP"),
}
"""MySQL's types with a sign and without one."""
_DECIMALS: Final = ("decimal", "numeric", "dec", "fixed")
_MYSQL: Final = re.compile(r"\s*([a-z]+)\s*(?:\(\s*([0-9]{1,4})\s*(?:,\s*([0-9]{1,4})\s*)?\))?(.*)", re.S)


@lru_cache(_SCHEMAS)
def debezium_columns(schema: str) -> dict[str, str]:
    """Spark's type of each column of the rows, by the text of an envelope's schema; {} of no such schema."""
    for name in ("after", "before"):
        for field in _list(_fields(_parsed(schema)).get("fields")):
            envelope = _fields(field)
            if _text(envelope.get("field")) == name:
                rows = map(_fields, _list(envelope.get("fields")))
                return {_text(row.get("field")): _of_connect(row) for row in rows if _text(row.get("field"))}
    return {}


def _of_connect(field: Mapping[str, Node]) -> str:
    kind, name = _text(field.get("type")), _text(field.get("name"))
    if name == _DECIMAL:
        parameters = _fields(field.get("parameters"))
        return _decimal(_text(parameters.get("connect.decimal.precision")), _text(parameters.get("scale")))
    if name in _OF_DEBEZIUM:
        return _OF_DEBEZIUM[name]
    if kind == "array":
        return f"ARRAY<{_of_connect(_fields(field.get('items')))}>"
    return _OF_CONNECT.get(kind, "STRING")


@lru_cache(_SCHEMAS)
def canal_columns(mysql_type: str) -> dict[str, str]:
    """The same by the text of a message's `mysqlType`."""
    return {name: _of_mysql(_text(kind)) for name, kind in _fields(_parsed(mysql_type)).items() if name}


@lru_cache(_SCHEMAS)
def canal_key(pk_names: str) -> tuple[str, ...]:
    """The columns of the primary key, by the text of a message's `pkNames`; () if it names none."""
    names = tuple(map(_text, _list(_parsed(pk_names))))
    return names if all(names) else ()


def _of_mysql(text: str) -> str:
    found = _MYSQL.fullmatch(text.lower())
    if found is None:
        return "STRING"
    name, first, second, rest = found.groups()
    if name in _DECIMALS:
        return _decimal(first or "10", second or "0")
    signed = _OF_MYSQL.get(name, ("STRING", "STRING"))
    return signed["unsigned" in rest or "zerofill" in rest]


def _decimal(precision: str, scale: str) -> str:
    is_known = precision.isdecimal() and scale.isdecimal() and 0 < int(precision) <= _MOST_DIGITS
    return f"DECIMAL({int(precision)},{int(scale)})" if is_known and int(scale) <= int(precision) else "STRING"


def merged_columns(several: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """The columns of all, each of a type that has all values, or of no type (see `no_type`): such as DATE or STRING."""
    found: dict[str, str] = {}
    for columns in several:
        found |= {name: _wider(found.get(name, kind), kind) for name, kind in columns.items()}
    return found


def no_type(kind: str) -> bool:
    """Whether no type has all values of what `merged_columns` gives a column."""
    return _OR in kind


def _wider(kind: str, other: str) -> str:
    for both in (kind, other, "DOUBLE"):
        if takes(both, kind) and takes(both, other):
            return both
    sizes = [_size(kind), _size(other)]
    before, after = (
        (max(size[at] for size in sizes if size is not None) for at in (0, 1)) if None not in sizes else (0, 0)
    )
    if 0 < before + after <= _MOST_DIGITS:
        return _decimal(str(before + after), str(after))
    return _OR.join(sorted({*kind.split(_OR), *other.split(_OR)}))


def takes(kind: str, events: str) -> bool:
    """Whether a column of type `kind` has each value of events' type `events` as it is."""
    exact = {"FLOAT": ("TINYINT", "SMALLINT"), "DOUBLE": ("FLOAT", "TINYINT", "SMALLINT", "INT"), "STRING": _WHOLE}
    if kind == events or events in exact.get(kind, ()):
        return True
    if kind.startswith("ARRAY<") and events.startswith("ARRAY<"):
        return takes(kind[6:-1], events[6:-1])
    if kind in _WHOLE and events in _WHOLE:
        return _WHOLE[kind] >= _WHOLE[events]
    own, its = _size(kind), _size(events)
    if own is None or its is None:
        return False
    full = own[0] - (kind in _WHOLE)  # INT has ten digits, and not all numbers of ten
    return full >= its[0] and own[1] >= its[1]


def changes_values(kind: str, events: str) -> bool:
    """Whether a column of type `kind` has some values of events' type `events` as others, where it does not refuse
    them: times as numbers, bytes as text, 01 as 1. Digits of exact numbers are all there, or the value is refused."""
    kind, events = kind.upper(), events.upper()
    if kind.startswith("ARRAY<") and events.startswith("ARRAY<"):
        return changes_values(kind[6:-1], events[6:-1])
    is_number = _size(kind) is not None and (_size(events) is not None or events in ("FLOAT", "DOUBLE"))
    return not (is_number or takes(kind, events))


def _size(kind: str) -> tuple[int, int] | None:
    """A number's digits before and after the point; None of no exact number."""
    if kind in _WHOLE:
        return _WHOLE[kind], 0
    found = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", kind)
    return None if found is None else (int(found[1]) - int(found[2]), int(found[2]))


def _parsed(text: str) -> Node | None:
    try:
        return parse_value(text, 0, STRICT)
    except BadRecord:
        return None


def _fields(node: Node | None) -> dict[str, Node]:
    return dict(node.value) if node is not None and node.kind == "object" else {}


def _list(node: Node | None) -> list[Any]:
    return list(node.value) if node is not None and node.kind == "list" else []


def _text(node: Node | None) -> str:
    return str(node.value) if node is not None and node.kind in ("text", "number") else ""
