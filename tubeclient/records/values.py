"""Values of columns, from JSON and from texts. A value is exact, or the record is bad.

Values are as Arrow takes them: dates as days and times as microseconds since 1970, decimals with the column's scale, a
map as a list of pairs, a struct as a dict. `path` is what a reason calls the value, such as a.b or a[3].
"""

from __future__ import annotations

import base64
import math
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Final, NoReturn

from tubeclient.records.fault import BadRecord
from tubeclient.records.json_text import (
    MOST_DIGITS,
    MOST_VALUES,
    NOT_JSON,
    STRICT,
    Node,
    fields_of,
    parse_value,
    too_many,
)
from tubeclient.records.spec import CHANGES, Column, RecordSpec
from tubeclient.records.times import (
    SECONDS,
    FarYear,
    NotATime,
    date_reader,
    local_time_reader,
    moment_reader,
)

SPACES: Final = " \t\n\r\v\f"
"""Around a text that is a number, a boolean or a time, these are no part of it."""

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_JSON_WORDS: Final = {
    "NaN": math.nan,
    **dict.fromkeys(("Infinity", "+Infinity", "INF", "+INF"), math.inf),
    **dict.fromkeys(("-Infinity", "-INF"), -math.inf),
}
_TEXT_WORDS: Final = {
    "nan": math.nan,
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), math.inf),
    **dict.fromkeys(("-inf", "-infinity"), -math.inf),
}
"""In csv and kv in any case, as SQL's CAST has them."""
_WORD_OPTIONS: Final = {"nanValue": math.nan, "positiveInf": math.inf, "negativeInf": -math.inf}
_BOOLEANS: Final = {"true": True, "false": False}
_BITS: Final = {"1": True, "0": False}
"""MySQL's booleans are numbers, which Canal writes."""


class Values:
    """What the values of a kind of records mean. ConfigurationError: a pattern or a zone that is none."""

    def __init__(self, spec: RecordSpec) -> None:
        options = spec.options
        self._is_change = spec.kind in CHANGES
        self._rescues = spec.rescue == "values"
        self._left = MOST_VALUES
        """How many values the record may still have in lists and rows."""
        self._is_whole = True
        """Whether columns have all fields of the value that is read."""
        self._date = date_reader(options.get("dateFormat"))
        self._moment = moment_reader(options.get("timestampFormat"), spec.time_zone)
        self._local_time = local_time_reader(options.get("timestampNTZFormat"))
        own = {options[name]: number for name, number in _WORD_OPTIONS.items() if name in options}
        self._words: Mapping[str, float] = _TEXT_WORDS | {text.lower(): number for text, number in own.items()}
        self._booleans = _BOOLEANS | _BITS if self._is_change else _BOOLEANS
        self._of_nodes: dict[str, Callable[[Node, Column, str, str], Any]] = {
            "bool": self._bool,
            "int": self._int,
            "float": self._float,
            "decimal": self._decimal,
            "string": self._string,
            "variant": self._variant,
            "binary": self._binary,
            "date": self._time,
            "timestamp": self._time,
            "timestamp_ntz": self._time,
            "list": self._list,
            "map": self._map,
            "struct": self._struct,
        }

    def begin(self) -> None:
        """A record begins."""
        self._left = MOST_VALUES

    def take(self, count: int, pos: int) -> None:
        """The record has so many values more. BadRecord: that is too many; a short list may have many columns."""
        self._left -= count
        if self._left < 0:
            raise too_many(pos)

    def of_node(self, node: Node, column: Column, text: str, path: str) -> Any:
        """The value of a node of the JSON `text`; None of null. BadRecord: it is not of the column's type."""
        return None if node.kind == "null" else self._of_nodes[column.kind](node, column, text, path)

    def of_text(self, text: str, column: Column, path: str, pos: int | None = None) -> Any:
        """The value that a text says, of a plain type or binary. What a null is, is for the caller to say. BadRecord:
        it is not of the column's type."""
        kind = column.kind
        if kind == "string":
            return text
        if kind == "binary":
            return _bytes(text, column, path, pos)
        text = text.strip(SPACES)
        if kind == "int":
            return _int(text, column, path, pos)
        if kind == "decimal":
            return self._exact(text, column, path, pos)
        if kind == "float":
            word = self._words.get(text.lower())
            return _float(text, column, path, pos) if word is None else word
        if kind == "bool":
            value = self._booleans.get(text.lower())
            return _misfit(column, path, pos) if value is None else value
        return self._time_of(text, column, path, pos)

    def row(self, fields: Mapping[str, Node], columns: Iterable[Column], text: str, left: set[str]) -> dict[str, Any]:
        """The columns' values, from an object's fields. `left` gets the names of those of which the columns do not have
        all. BadRecord: a value is not of its type and is not rescued, or one is missing that is required."""
        self.begin()
        row = {}
        for column in columns:
            name = column.name
            node = fields.get(name)
            self._is_whole = True
            try:
                value = None if node is None else self.of_node(node, column, text, name)
            except BadRecord:
                if not self.rescues(column):
                    raise
                value, self._is_whole = None, False
            if value is None and column.required:
                raise missing(column)
            if not self._is_whole:
                left.add(name)
            row[name] = value
        return row

    def rescues(self, column: Column) -> bool:
        """Whether a value that is not of the column's type makes it null, and not the record bad."""
        return self._rescues and not column.required and self._left >= 0

    def _bool(self, node: Node, column: Column, text: str, path: str) -> bool:
        return node.value is True if node.kind == "boolean" else _misfit(column, path, node.start)

    def _int(self, node: Node, column: Column, text: str, path: str) -> int:
        return _int(node.value if node.kind == "number" else "", column, path, node.start)

    def _float(self, node: Node, column: Column, text: str, path: str) -> float:
        if node.kind in ("number", "text") and node.value in _JSON_WORDS:
            return _JSON_WORDS[node.value]
        return _float(node.value if node.kind == "number" else "", column, path, node.start)

    def _decimal(self, node: Node, column: Column, text: str, path: str) -> Decimal:
        written = node.value if node.kind in ("number", "text") else ""
        return self._exact(written, column, path, node.start)

    def _string(self, node: Node, column: Column, text: str, path: str) -> str:
        return node.value if node.kind == "text" else text[node.start : node.end]

    def _binary(self, node: Node, column: Column, text: str, path: str) -> bytes:
        if node.kind != "text":
            _misfit(column, path, node.start)
        return _bytes(node.value, column, path, node.start)

    def _time(self, node: Node, column: Column, text: str, path: str) -> int:
        if node.kind == "text":
            return self._time_of(node.value, column, path, node.start)
        if node.kind != "number" or column.kind != "timestamp" or _INTEGER.fullmatch(node.value) is None:
            _misfit(column, path, node.start)
        if self._is_change:
            raise BadRecord(
                f"{path} is a number for a TIMESTAMP; make the column BIGINT, or have the envelope's schema written",
                node.start,
            )
        seconds = int(node.value)
        if not SECONDS[0] <= seconds <= SECONDS[1]:
            raise _far(path, node.start)
        return seconds * 1_000_000

    def _variant(self, node: Node, column: Column, text: str, path: str) -> str:
        # Spark reads it behind us, strictly and by itself. So the options of the whole record do not count here.
        found = parse_value(text, node.start, STRICT)
        if found.end != node.end:
            raise BadRecord(NOT_JSON, node.start)
        _check_variant(found, path)
        return text[node.start : node.end]

    def _list(self, node: Node, column: Column, text: str, path: str) -> list[Any]:
        if node.kind != "list":
            _misfit(column, path, node.start)
        (item,) = column.parts
        return [self.of_node(value, item, text, f"{path}[{at}]") for at, value in enumerate(node.value)]

    def _map(self, node: Node, column: Column, text: str, path: str) -> list[tuple[Any, Any]]:
        if node.kind != "object":
            _misfit(column, path, node.start)
        key, item = column.parts
        pairs = [
            (self.of_text(name, key, f"{path}.key", value.start), self.of_node(value, item, text, f"{path}.value"))
            for name, value in node.value
        ]
        # Two texts may be one key: 1 and +1. Two NaN are not equal, but their texts are.
        if min(len({name for name, _ in node.value}), len({key for key, _ in pairs})) < len(pairs):
            raise BadRecord(f"a key of {path} appears twice", node.start)
        return pairs

    def _struct(self, node: Node, column: Column, text: str, path: str) -> dict[str, Any]:
        if node.kind != "object":
            _misfit(column, path, node.start)
        self.take(len(column.parts), node.start)
        names = {part.name for part in column.parts}
        fields = fields_of(node, path, names)
        self._is_whole &= len(fields) == len(node.value)
        row = {}
        for part in column.parts:
            value = fields.get(part.name)
            row[part.name] = None if value is None else self.of_node(value, part, text, f"{path}.{part.name}")
        return row

    def _exact(self, text: str, column: Column, path: str, pos: int | None) -> Decimal:
        """A decimal with the column's scale. In changes nothing is rounded: the database's column has a scale."""
        if len(text) > MOST_DIGITS or _NUMBER.fullmatch(text) is None:
            _misfit(column, path, pos)
        precision, scale = column.size
        value = Decimal(text)
        if value and value.adjusted() >= precision - scale:
            _misfit(column, path, pos)
        rounded = value.quantize(Decimal((0, (1,), -scale)), ROUND_HALF_UP, _WIDE)
        if rounded.adjusted() >= precision - scale and rounded:  # 9.995 became 10.00
            _misfit(column, path, pos)
        if self._is_change and rounded != value:
            _misfit(column, path, pos)
        return rounded

    def _time_of(self, text: str, column: Column, path: str, pos: int | None) -> int:
        try:
            if column.kind == "date":
                return self._date(text)
            return self._moment(text) if column.kind == "timestamp" else self._local_time(text)
        except NotATime:
            _misfit(column, path, pos)
        except FarYear:
            raise _far(path, pos) from None


_WIDE: Final = Context(prec=50)
"""Has place for each decimal with the 38 digits that a column may have."""


def missing(column: Column) -> BadRecord:
    return BadRecord(f"{column.name} is NOT NULL but has no value")


def _misfit(column: Column, path: str, pos: int | None) -> NoReturn:
    raise BadRecord(f"the value of {path} is not of type {column.simple}", pos) from None


def _far(path: str, pos: int | None) -> BadRecord:
    return BadRecord(f"{path} is outside the years 1 to 9999", pos)


def _int(text: str, column: Column, path: str, pos: int | None) -> int:
    if len(text) > MOST_DIGITS or _INTEGER.fullmatch(text) is None:
        _misfit(column, path, pos)
    value = int(text)
    most = 1 << column.size[0] - 1
    return value if -most <= value < most else _misfit(column, path, pos)


def _float(text: str, column: Column, path: str, pos: int | None) -> float:
    if len(text) > MOST_DIGITS or _NUMBER.fullmatch(text) is None:
        _misfit(column, path, pos)
    value = float(text)
    if math.isinf(value):
        _misfit(column, path, pos)
    if column.size == (64,):
        return value
    try:
        return _nearest_float32(text, value)
    except OverflowError:
        _misfit(column, path, pos)


def _nearest_float32(text: str, value: float) -> float:
    """The float32 nearest to what the text says; `value` is the nearest float64. OverflowError: it would be infinite.

    To round twice gives another one where the first rounding ends in the middle between two. So the first one is done
    again, to the odd one of the two float64 around the text's number, which is never in the middle.
    """
    exact = Decimal(text)
    if exact != value and not struct.unpack("<q", struct.pack("<d", value))[0] & 1:
        value = math.nextafter(value, math.inf if exact > value else -math.inf)
    found: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return found


def _bytes(text: str, column: Column, path: str, pos: int | None) -> bytes:
    data = bytes_of(text)
    return _misfit(column, path, pos) if data is None else data


def bytes_of(text: str) -> bytes | None:
    """The bytes of a base64 text as encoders write it, with padding; None of others, which Python's decoder takes."""
    try:
        data = base64.b64decode(text)
    except ValueError:
        return None
    return data if base64.b64encode(data).decode() == text else None


_MOST_DIGITS: Final = 38
"""Digits of a VARIANT's decimals."""


def _is_exact(text: str) -> bool:
    """Whether a VARIANT has a number as it is written: Spark makes a decimal of it, and a double of one that has an
    exponent or more digits."""
    if not set(text) & set("eE") and sum(map(str.isdigit, text)) <= _MOST_DIGITS:
        return True
    number = float(text)
    return not math.isinf(number) and Decimal(repr(number)) == Decimal(text)


def _check_variant(node: Node, path: str) -> None:
    """BadRecord: an object has a name twice, or a number is another one in a VARIANT, at any depth."""
    left = [node]
    while left:
        inner = left.pop()
        if inner.kind == "object":
            if len({name for name, _ in inner.value}) < len(inner.value):
                raise BadRecord(f"a name within {path} appears twice", inner.start)
            left.extend(value for _, value in inner.value)
        elif inner.kind == "list":
            left.extend(inner.value)
        elif inner.kind == "number" and not _is_exact(inner.value):
            raise BadRecord(f"a number within {path} has more digits than a VARIANT can have", inner.start)
