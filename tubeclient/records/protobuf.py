"""Protobuf messages to rows, by a descriptor.

By protobuf's documentation (proto2, proto3, field presence, ProtoJSON) and Spark's from_protobuf with the options
emit.default.values, upcast.unsigned.ints and unwrap.primitive.wrapper.types. Where those drop what was written, the
record is bad here: a number that a proto2 enum does not have, and a field whose bytes are of another type.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any, Final, TypeAlias

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.internal import api_implementation
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from tubeclient.errors import ConfigurationError
from tubeclient.records.fault import BadRecord, Fault
from tubeclient.records.json_text import MOST_VALUES
from tubeclient.records.protobuf_types import (
    ANY,
    SIGNED_32,
    SIGNED_64,
    TIMESTAMP,
    UNSIGNED_32,
    UNSIGNED_64,
    VALUE,
    WRAPPERS,
    column_type,
    entry_of,
    is_repeated,
    is_required,
    message_type,
    type_name,
)
from tubeclient.records.protobuf_wire import Wire, too_many
from tubeclient.records.spec import Column, RecordSpec, simple_name
from tubeclient.records.times import SECONDS
from tubeclient.records.values import missing

Convert: TypeAlias = Callable[[Any], Any]
"""Makes a column's value of protobuf's. Fault: the column cannot have it."""

_RANGES: Final = {
    **dict.fromkeys(SIGNED_32, (-1 << 31, (1 << 31) - 1)),
    **dict.fromkeys(SIGNED_64, (-1 << 63, (1 << 63) - 1)),
    **dict.fromkeys(UNSIGNED_32, (0, (1 << 32) - 1)),
    **dict.fromkeys(UNSIGNED_64, (0, (1 << 64) - 1)),
    FieldDescriptor.TYPE_ENUM: (-1 << 31, (1 << 31) - 1),
}
_NANOS: Final = 1_000_000_000


def protobuf_reader(spec: RecordSpec, columns: Sequence[Column]) -> Callable[[bytes], dict[str, Any]]:
    """How a message's bytes are read. ConfigurationError: the descriptor file is none or lacks the message, or the
    message lacks a column or has it in another type; or protobuf is not compiled here."""
    if api_implementation.Type() == "python":
        raise ConfigurationError(
            "protobuf is running its pure Python code, which reads some messages differently. Unset "
            "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION, or install protobuf from a wheel for this machine"
        )
    return _ProtobufReader(spec, columns).read


class _ProtobufReader:
    def __init__(self, spec: RecordSpec, columns: Sequence[Column]) -> None:
        message = message_type(spec.descriptor, spec.message)
        self._type, self._message, self._columns = message, GetMessageClass(message), columns
        self._pool = message.file.pool
        self._wire = Wire(message)
        self._left = MOST_VALUES
        """How many items the record may still have in lists."""
        self._row = self._struct(message, columns)

    def read(self, data: bytes) -> dict[str, Any]:
        """The row of a message. BadRecord: the bytes are none, or a value is not of its column's type."""
        self._left = MOST_VALUES
        self._wire.check(data)
        try:
            message = self._message.FromString(data)
        except DecodeError:
            raise BadRecord(f"the bytes are not a message {self._type.full_name}") from None
        try:
            if not self._message.IsInitialized(message):
                _check(message)
            row: dict[str, Any] = self._row(message)
        except Fault as fault:
            raise BadRecord(fault.words.format(fault.path)) from None
        for column in self._columns:
            if column.required and row[column.name] is None:
                raise missing(column)
        return row

    def _take(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise too_many()

    def _struct(self, message: Descriptor, columns: Sequence[Column], path: str = "") -> Convert:
        parts = []
        for column in columns:
            field = message.fields_by_name.get(column.name)
            place = f"{path}{column.name}"
            if field is None:
                names = ", ".join(known.name for known in message.fields)
                raise ConfigurationError(
                    f"column {place} is not a field of message {message.full_name}, which has {names or 'none'}"
                )
            parts.append((column.name, _getter(field), self._field(field, column, place)))

        def convert(value: Message) -> dict[str, Any]:
            _check_unread(value, message)
            row = {}
            for name, get, of_field in parts:
                raw = get(value)
                try:
                    row[name] = raw if raw is None or of_field is _same else of_field(raw)
                except Fault as fault:
                    raise fault.within(name) from None
            return row

        return convert

    def _field(self, field: FieldDescriptor, column: Column, path: str) -> Convert:
        entry = entry_of(field)
        if entry is not None and column.kind == "map":
            key, value = (self._one(inner, part, path) for inner, part in zip(entry, column.parts, strict=True))
            if key is not None and value is not None:
                return partial(self._pairs, key, value)
        elif entry is None and is_repeated(field) and column.kind == "list":
            if (item := self._one(field, column.parts[0], path)) is not None:
                return partial(self._items, item)
        elif not is_repeated(field) and (found := self._one(field, column, path)) is not None:
            return found
        try:
            fits = f"; make it {simple_name(column_type(field)).upper()}"
        except ConfigurationError:  # it has itself within
            fits = ""
        raise ConfigurationError(
            f"column {path} is {column.simple}, but field {field.full_name} is {type_name(field)}{fits}"
        )

    def _items(self, item: Convert, values: Any) -> list[Any]:
        self._take(len(values))
        if item is _same:
            return list(values)
        found: list[Any] = []
        try:
            for value in values:
                found.append(item(value))
        except Fault as fault:
            raise fault.within(f"[{len(found)}]") from None
        return found

    def _pairs(self, key: Convert, value: Convert, values: Any) -> list[tuple[Any, Any]]:
        """In the order of the keys: protobuf's own is another one each time."""
        try:
            converted = {name: key(name) for name in values}
        except Fault as fault:
            raise fault.within("key") from None
        try:
            return [(converted[name], value(values[name])) for name in sorted(converted)]
        except Fault as fault:
            raise fault.within("value") from None

    def _one(self, field: FieldDescriptor, column: Column, path: str) -> Convert | None:
        """Of a field that is no list, or of an item; None if the column does not take it."""
        kind, message = column.kind, field.message_type
        if message is not None:
            return self._of_message(message, column, path)
        if field.type in _RANGES and kind == "int":
            most = 1 << column.size[0] - 1
            return _ranged(-most, most - 1, _RANGES[field.type], column)
        if field.enum_type is not None:
            return partial(_enum_name, field.enum_type) if kind == "string" else None
        if field.type in _RANGES and kind == "decimal":
            most = 10 ** (column.size[0] - column.size[1]) - 1
            whole = _ranged(-most, most, _RANGES[field.type], column)
            return lambda value: Decimal(whole(value))
        if field.type == FieldDescriptor.TYPE_STRING:
            return _text if kind == "string" else None
        fits = {
            FieldDescriptor.TYPE_BOOL: kind == "bool",
            FieldDescriptor.TYPE_BYTES: kind == "binary",
            FieldDescriptor.TYPE_FLOAT: kind == "float",
            FieldDescriptor.TYPE_DOUBLE: kind == "float" and column.size == (64,),
        }
        return _same if fits.get(field.type) else None

    def _of_message(self, message: Descriptor, column: Column, path: str) -> Convert | None:
        if column.kind == "struct":
            return self._struct(message, column.parts, f"{path}.")
        if column.kind == "timestamp" and message.full_name == TIMESTAMP:
            return partial(_moment, message)
        if message.full_name in WRAPPERS and column.kind != "variant":
            of_value = self._one(message.fields_by_name["value"], column, path)
            return None if of_value is None else lambda value: _unwrapped(value, message, of_value)
        if column.kind in ("string", "variant"):
            return partial(self._json, column.kind == "string")
        return None

    def _json(self, is_text: bool, message: Message) -> str:
        """ProtoJSON, with the names of the .proto file; of a text the text itself if `is_text`."""
        _check(message)
        try:
            found = json_format.MessageToDict(message, preserving_proto_field_name=True, descriptor_pool=self._pool)
            if is_text and isinstance(found, str):
                return found
            # Protobuf's own order of a map's names is another one each time.
            text = json.dumps(found, ensure_ascii=False, allow_nan=False, sort_keys=True)
        except (json_format.Error, DecodeError, TypeError, ValueError, KeyError, AttributeError, RecursionError):
            raise Fault("{} cannot be written as JSON") from None
        return text


def _getter(field: FieldDescriptor) -> Convert:
    """How a message's field is had: None if it is missing. A field without presence is never missing: what was written
    as 0 and what was not written are the same bytes."""
    name = field.name
    if is_repeated(field) or not field.has_presence or field.has_default_value:
        return attrgetter(name)
    # By the class, as a field may have the method's name.
    around = field.containing_type
    assert around is not None
    has = GetMessageClass(around).HasField
    return lambda message: getattr(message, name) if has(message, name) else None


def _same(value: Any) -> Any:
    return value


def _ranged(least: int, most: int, of_field: tuple[int, int], column: Column) -> Convert:
    if least <= of_field[0] and of_field[1] <= most:
        return _same

    def convert(value: int) -> int:
        if not least <= value <= most:
            raise Fault(f"the value of {{}} is not of type {column.simple}")
        return value

    return convert


def _enum_name(enum: EnumDescriptor, number: int) -> str:
    """As in ProtoJSON a number without a name is its digits, which no name is."""
    found = enum.values_by_number.get(number)
    return str(number) if found is None else str(found.name)


def _text(value: Any) -> str:
    """In proto2 protobuf hands out the bytes if they are no text."""
    if not isinstance(value, str):
        raise Fault("the bytes of {} are not UTF-8 text")
    return value


def _moment(message: Descriptor, value: Any) -> int:
    _check_unread(value, message)
    if not 0 <= value.nanos < _NANOS:
        raise Fault("the value of {} is not of type timestamp")
    if not SECONDS[0] <= value.seconds <= SECONDS[1]:
        raise Fault("{} is outside the years 1 to 9999")
    return int(value.seconds) * 1_000_000 + int(value.nanos) // 1_000


def _unwrapped(value: Any, message: Descriptor, of_value: Convert) -> Any:
    _check_unread(value, message)
    return of_value(value.value)


def _check_unread(value: Message, message: Descriptor) -> None:
    """Fault: the parser left out a field of the message, as its bytes are of another type or no value of its enum."""
    unread: Any = UnknownFieldSet(value)
    for unknown in unread:
        field = message.fields_by_number.get(unknown.field_number)
        if field is not None:
            raise Fault(f"the bytes of {{}} are not of type {type_name(field)}", field.name)


def _check(message: Any) -> None:
    """Fault: anywhere within a required field is missing, or a Value's kind, or what `_check_unread` and `_text` look
    for."""
    known = type(message)
    of_type: Descriptor = known.DESCRIPTOR
    if of_type.full_name == VALUE and not known.WhichOneof(message, "kind"):
        raise Fault("{} has no kind, but a google.protobuf.Value must have one")
    if of_type.full_name == ANY:
        _check_any(message, of_type)
    _check_unread(message, of_type)
    for field in of_type.fields:
        if is_required(field) and not known.HasField(message, field.name):
            raise Fault("the required field {} is missing", field.name)
    for field, value in known.ListFields(message):
        try:
            _check_value(field, value)
        except Fault as fault:
            raise fault.within(field.name) from None


def _check_any(message: Any, of_type: Descriptor) -> None:
    """BadRecord or Fault: for what is within it. A type that the file does not have is for json_format to say."""
    with suppress(KeyError, DecodeError):
        inner = of_type.file.pool.FindMessageTypeByName(message.type_url.rpartition("/")[2])
        Wire(inner).check(message.value)
        _check(GetMessageClass(inner).FromString(message.value))


def _check_value(field: FieldDescriptor, value: Any) -> None:
    parts: Iterable[tuple[str, FieldDescriptor, Any]]
    if (entry := entry_of(field)) is not None:
        keys = (("key", entry[0], key) for key in value)
        parts = chain(keys, (("value", entry[1], value[key]) for key in value))  # a bad key has no value
    elif is_repeated(field):
        parts = [(f"[{at}]", field, item) for at, item in enumerate(value)]
    else:
        parts = [("", field, value)]
    for name, part, inner in parts:
        try:
            if part.message_type is not None:
                _check(inner)
            elif part.type == FieldDescriptor.TYPE_STRING:
                _text(inner)
        except Fault as fault:
            raise (fault.within(name) if name else fault) from None
