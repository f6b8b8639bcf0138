"""What a Protobuf message's bytes say that the parser does not.

How much it takes: two bytes may be a message with hundreds of fields, for which the parser reserves memory. And what a
number was: of one that is too large for 32 bits, as senders write whose definition has more, the parser takes the lower
ones. (Source: "Updating A Message Type" of Protobuf's language guide.)
"""

from __future__ import annotations

import re
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from tubeclient.records.fault import BadRecord
from tubeclient.records.json_text import MOST_VALUES

_VARINT, _EIGHT, _LENGTH, _BEGIN, _END, _FOUR = range(6)
"""Types of fields, in their bytes."""
_LEAST: Final = 2
"""Bytes of a field."""
_LONG: Final = re.compile(rb"[\x80-\xff]{4}[\x08-\xff]")
"""A number of more than 31 bits, or a text that looks so."""
_SIGNED: Final = {FieldDescriptor.TYPE_INT32: "int32", FieldDescriptor.TYPE_ENUM: "enum"}
_SHORT: Final = {FieldDescriptor.TYPE_UINT32: "uint32", FieldDescriptor.TYPE_SINT32: "sint32", **_SIGNED}
"""Fields of 32 bits that are written as numbers of any length."""


def too_many() -> BadRecord:
    return BadRecord(f"the record has more than {MOST_VALUES} values")


class Wire:
    """Of a message type's records."""

    def __init__(self, message: Descriptor) -> None:
        self._message = message
        types = {message.full_name: message}
        left = [message]
        while left:
            for field in left.pop().fields:
                inner = field.message_type
                if inner is not None and inner.full_name not in types:
                    types[inner.full_name] = inner
                    left.append(inner)
        self._widest = max(1, *(len(other.fields) for other in types.values()))
        self._has_short = any(field.type in _SHORT for other in types.values() for field in other.fields)

    def check(self, data: bytes) -> None:
        """BadRecord: the record has more than `MOST_VALUES` fields, with those that messages within it may have, or a
        number that its field cannot hold. What is no message is for the parser to say."""
        may_be_many = len(data) // _LEAST * self._widest > MOST_VALUES
        if may_be_many or (self._has_short and _LONG.search(data)):
            try:
                self._walk(data)
            except (IndexError, KeyError):  # the bytes end too early, or have a type that there is not
                return

    def _walk(self, data: bytes) -> None:
        count = pos = 0
        around: list[tuple[Descriptor | None, int]] = [(self._message, len(data))]
        while around:
            message, end = around[-1]
            if pos >= end:
                around.pop()
                continue
            tag, pos = _varint(data, pos)
            kind = tag & 7
            field = None if message is None else message.fields_by_number.get(tag >> 3)
            inner = None
            if field is not None and (field.type == FieldDescriptor.TYPE_GROUP) == (kind == _BEGIN):
                inner = field.message_type
            count += 1 if inner is None else len(inner.fields)
            if count > MOST_VALUES:
                raise too_many()
            if kind == _VARINT:
                number, pos = _varint(data, pos)
                _check(field, number)
            elif kind == _LENGTH:
                length, pos = _varint(data, pos)
                last = pos + length
                if inner is not None:
                    around.append((inner, last))
                    continue
                while field is not None and field.type in _SHORT and pos < last:
                    number, pos = _varint(data, pos)
                    _check(field, number)
                pos = last
            elif kind == _BEGIN:
                around.append((inner, end))
            elif kind == _END:
                around.pop()
            else:
                pos += {_EIGHT: 8, _FOUR: 4}[kind]


def _check(field: FieldDescriptor | None, number: int) -> None:
    """BadRecord: the field has 32 bits, and the number is none of them."""
    if field is None or field.type not in _SHORT:
        return
    number &= (1 << 64) - 1
    signed = number - (1 << 64) if number >> 63 else number
    # -1 is written with 64 bits. With 32 of them the sender's field may be unsigned, and the number 4 294 967 295.
    least, most = (-(1 << 31), 1 << 31) if field.type in _SIGNED else (0, 1 << 32)
    if not least <= signed < most:
        raise BadRecord(f"the sender wrote a number into {field.name} that is not of type {_SHORT[field.type]}")


def _varint(data: bytes, pos: int) -> tuple[int, int]:
    """A number, and where it ends. IndexError: it does not."""
    byte = data[pos]
    number, shift = byte & 0x7F, 7
    while byte > 0x7F:
        pos += 1
        byte = data[pos]
        if shift < 70:  # no number has more bits
            number |= (byte & 0x7F) << shift
        shift += 7
    return number, pos + 1
