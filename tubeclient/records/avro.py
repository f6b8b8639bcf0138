"""Avro's bytes to rows, by a schema: each record alone, without the header of a file or of a registry.

By Avro's specification 1.12, to the letter where readers differ: Java's, Spark's from_avro and fastavro cut numbers,
take any byte for a boolean, keep the last of a map's equal keys, or count an index from the end. Here such a record is
bad. Nothing is made before its bytes are known to be there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from typing import Any, Final, TypeAlias

from tubeclient.errors import ConfigurationError
from tubeclient.records.avro_schema import AvroType, record_type
from tubeclient.records.fault import BadRecord, Fault
from tubeclient.records.json_text import MOST_VALUES, too_many
from tubeclient.records.spec import Column, RecordSpec, simple_name
from tubeclient.records.times import SECONDS
from tubeclient.records.values import missing

Read: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
"""Takes the bytes and where a value begins; gives the value for Arrow and where it ends. Fault: the value is none.
IndexError or struct.error: the bytes end within it."""

_HEADERS: Final = (
    (b"\xc3\x01", 10, "a header of Avro's single-object encoding"),
    (b"\0", 5, "a schema registry's header"),
)
"""What begins records of other encodings, how long it is, and its name."""
_FILE: Final = b"Obj\x01"
_CUT: Final = (IndexError, struct.error)
_EXACT: Final = Context(prec=38)
_DAYS: Final = range(SECONDS[0] // 86_400, SECONDS[1] // 86_400 + 1)
_MICROS: Final = range(SECONDS[0] * 1_000_000, (SECONDS[1] + 1) * 1_000_000)
_FAR: Final = "{} is outside the years 1 to 9999"


def avro_reader(spec: RecordSpec, columns: Sequence[Column]) -> Callable[[bytes], dict[str, Any]]:
    """How a record's bytes are read. ConfigurationError: the schema is none, or has other columns."""
    return _AvroReader(spec, columns).read


class _AvroReader:
    def __init__(self, spec: RecordSpec, columns: Sequence[Column]) -> None:
        record = record_type(spec.descriptor.decode(), spec.options)
        if [(column.name, column.simple) for column in columns] != [
            (field.name, simple_name(field.type)) for field in record.type
        ]:
            raise ConfigurationError("the columns are not those of the Avro schema")
        self._required = [column for column in columns if column.required]
        self._left = MOST_VALUES
        """How many values the record may still have in lists."""
        self._record = self._of(record)

    def read(self, data: bytes) -> dict[str, Any]:
        """The row of a record. BadRecord: the bytes are not one record of the schema, or a NOT NULL column has none."""
        try:
            row = self._whole(data)
        except BadRecord:
            if (header := self._header(data)) is not None:
                raise BadRecord(f"the record has {header}, which is not supported") from None
            raise
        for column in self._required:
            if row[column.name] is None:
                raise missing(column)
        return row

    def _whole(self, data: bytes) -> dict[str, Any]:
        if not data:
            raise BadRecord("the record is empty")
        self._left = MOST_VALUES
        try:
            row, end = self._record(data, 0)
        except Fault as fault:
            raise BadRecord(f"{fault.words.format(fault.path)}, at byte {fault.pos}") from None
        if end < len(data):
            raise BadRecord(f"more bytes follow the record, at byte {end}")
        found: dict[str, Any] = row
        return found

    def _header(self, data: bytes) -> str | None:
        """What begins bytes that are a record behind it, or a file."""
        if data.startswith(_FILE):
            return "the header of an Avro file"
        for begin, size, name in _HEADERS:
            if data.startswith(begin):
                try:
                    self._whole(data[size:])
                except BadRecord:
                    continue
                return name
        return None

    def _of(self, schema: AvroType) -> Read:
        match schema.kind:
            case "record":
                return _record(schema.names, [*map(self._of, schema.parts)])
            case "array" | "map":
                read_one = self._of(schema.parts[0])
                if schema.kind == "map":
                    return _keyed(self._items(_pair(read_one), 1 + schema.parts[0].width, is_map=True))
                return self._items(read_one, schema.parts[0].width, is_map=False)
            case "union":
                return _union([*map(self._of, schema.parts)])
            case "members":
                parts = [*zip(schema.names, map(self._of, schema.parts), strict=True)]
                # Arrow takes the members that a row lacks for null.
                return _union([_record((name,), (part,)) if name else part for name, part in parts])
            case "fixed":
                return _fixed(schema.size)
            case "enum":
                return _enum(schema.names)
            case "decimal":
                return _decimal(
                    _fixed(schema.size) if schema.size else _bytes, schema.type.precision, schema.type.scale
                )
            case "time":
                return _time(schema.size)
            case kind:
                return _PLAIN[kind]

    def _items(self, read_one: Read, width: int, *, is_map: bool) -> Read:
        """Of blocks of items, each of which takes so many values."""

        def read(data: bytes, pos: int) -> tuple[Any, int]:
            found: list[Any] = []
            while True:
                count, pos = _long(data, pos)
                end = None
                if count < 0:  # how many bytes they take follows
                    size, pos = _long(data, pos)
                    count, end = -count, pos + size
                elif not count:
                    return found, pos
                self._left -= count * width
                if self._left < 0:
                    raise too_many(pos)
                try:
                    for _ in range(count):
                        value, pos = read_one(data, pos)
                        found.append(value)
                except Fault as fault:
                    raise fault.within("" if is_map else f"[{len(found)}]", pos) from None
                if end not in (None, pos):
                    raise Fault("a block of {} does not have the size that it states")

        return read


def _record(names: Sequence[str], parts: Sequence[Read]) -> Read:
    fields = [*zip(names, parts, strict=True)]

    def read(data: bytes, pos: int) -> tuple[Any, int]:
        row = {}
        name = ""
        try:
            for name, read_one in fields:
                row[name], pos = read_one(data, pos)
        except Fault as fault:
            raise fault.within(name, pos) from None
        except _CUT:
            raise Fault("the bytes end within {}", name, len(data)) from None
        return row, pos

    return read


def _union(parts: Sequence[Read]) -> Read:
    def read(data: bytes, pos: int) -> tuple[Any, int]:
        number, pos = _long(data, pos)
        if not 0 <= number < len(parts):
            raise Fault("the value of {} matches no type of its union")
        return parts[number](data, pos)

    return read


def _pair(read_value: Read) -> Read:
    read_pair = _record(("key", "value"), (_string, read_value))

    def read(data: bytes, pos: int) -> tuple[Any, int]:
        found, pos = read_pair(data, pos)
        return (found["key"], found["value"]), pos

    return read


def _keyed(read_pairs: Read) -> Read:
    def read(data: bytes, pos: int) -> tuple[Any, int]:
        found, pos = read_pairs(data, pos)
        if len({key for key, _ in found}) < len(found):
            raise Fault("a key of {} appears twice")
        return found, pos

    return read


def _long(data: bytes, pos: int, bits: int = 64) -> tuple[int, int]:
    """A number in zigzag, and where it ends."""
    byte = data[pos]
    pos += 1
    if byte < 0x80:
        return byte >> 1 ^ -(byte & 1), pos
    number = byte & 0x7F
    for shift in range(7, bits, 7):
        byte = data[pos]
        pos += 1
        if byte < 0x80:
            number |= byte << shift
            if number >> bits:
                break
            return number >> 1 ^ -(number & 1), pos
        number |= (byte & 0x7F) << shift
    raise Fault(f"a number of {{}} has more than {bits} bits")


def _int(data: bytes, pos: int) -> tuple[int, int]:
    return _long(data, pos, 32)


def _null(data: bytes, pos: int) -> tuple[None, int]:
    return None, pos


def _boolean(data: bytes, pos: int) -> tuple[bool, int]:
    byte = data[pos]
    if byte > 1:
        raise Fault("the value of {} is not of type boolean")
    return byte == 1, pos + 1


def _number(layout: struct.Struct) -> Read:
    def read(data: bytes, pos: int) -> tuple[float, int]:
        return layout.unpack_from(data, pos)[0], pos + layout.size

    return read


def _fixed(size: int) -> Read:
    def read(data: bytes, pos: int) -> tuple[bytes, int]:
        end = pos + size
        if end > len(data):
            raise IndexError
        return data[pos:end], end

    return read


def _bytes(data: bytes, pos: int) -> tuple[bytes, int]:
    size, pos = _long(data, pos)
    end = pos + size
    if end > len(data):
        raise IndexError
    if size < 0:
        raise Fault("the length of {} is negative")
    return data[pos:end], end


def _string(data: bytes, pos: int) -> tuple[str, int]:
    found, end = _bytes(data, pos)
    try:
        return found.decode(), end
    except UnicodeDecodeError:
        raise Fault("the bytes of {} are not UTF-8 text") from None


def _enum(symbols: Sequence[str]) -> Read:
    def read(data: bytes, pos: int) -> tuple[str, int]:
        number, pos = _int(data, pos)
        if not 0 <= number < len(symbols):
            raise Fault("the value of {} is not a symbol of its enum")
        return symbols[number], pos

    return read


def _decimal(read_bytes: Read, precision: int, scale: int) -> Read:
    limit = 10**precision

    def read(data: bytes, pos: int) -> tuple[Decimal, int]:
        found, pos = read_bytes(data, pos)
        number = int.from_bytes(found, signed=True)
        if not found or not -limit < number < limit:
            raise Fault(f"the value of {{}} is not of type decimal({precision},{scale})")
        return Decimal(number).scaleb(-scale, _EXACT), pos

    return read


def _date(data: bytes, pos: int) -> tuple[int, int]:
    days, pos = _int(data, pos)
    if days not in _DAYS:
        raise Fault(_FAR)
    return days, pos


def _time(unit: int) -> Read:
    def read(data: bytes, pos: int) -> tuple[int, int]:
        found, pos = _long(data, pos)
        if (micros := found * unit) not in _MICROS:
            raise Fault(_FAR)
        return micros, pos

    return read


_PLAIN: Final[dict[str, Read]] = {
    "null": _null,
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "float": _number(struct.Struct("<f")),
    "double": _number(struct.Struct("<d")),
    "bytes": _bytes,
    "string": _string,
    "date": _date,
}
