"""How much a Protobuf message takes: two bytes may be a message with hundreds of fields, for which the parser reserves
memory. So large records are looked through before they are parsed."""

from __future__ import annotations

from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from tubeclient.records.fault import BadRecord
from tubeclient.records.json_text import MOST_VALUES

_VARINT, _EIGHT, _LENGTH, _BEGIN, _END, _FOUR = range(6)
"""Types of fields, in their bytes."""
_LEAST: Final = 2
"""Bytes of a field."""


def too_many() -> BadRecord:
    return BadRecord(f"the record has more than {MOST_VALUES} values")


class Sizes:
    """Of a message type's records."""

    def __init__(self, message: Descriptor) -> None:
        self._message = message
        types = {message.full_name: message}
        left = [message]
        while left:
            for one in left.pop().fields:
                inner = one.message_type
                if inner is not None and inner.full_name not in types:
                    types[inner.full_name] = inner
                    left.append(inner)
        self._widest = max(1, *(len(one.fields) for one in types.values()))

    def check(self, data: bytes) -> None:
        """BadRecord: the record has more than `MOST_VALUES` fields, with those that messages within it may have. What
        is no message is for the parser to say."""
        if len(data) // _LEAST * self._widest > MOST_VALUES and self._is_more(data):
            raise too_many()

    def _is_more(self, data: bytes) -> bool:
        count = place = 0
        around: list[tuple[Descriptor | None, int]] = [(self._message, len(data))]
        try:
            while around:
                message, end = around[-1]
                if place >= end:
                    around.pop()
                    continue
                tag, place = _varint(data, place)
                kind = tag & 7
                field = None if message is None else message.fields_by_number.get(tag >> 3)
                inner = None
                if field is not None and (field.type == FieldDescriptor.TYPE_GROUP) == (kind == _BEGIN):
                    inner = field.message_type
                count += 1 if inner is None else len(inner.fields)
                if count > MOST_VALUES:
                    return True
                if kind == _VARINT:
                    _, place = _varint(data, place)
                elif kind == _LENGTH:
                    length, place = _varint(data, place)
                    if inner is not None:
                        around.append((inner, place + length))
                    else:
                        place += length
                elif kind == _BEGIN:
                    around.append((inner, end))
                elif kind == _END:
                    around.pop()
                else:
                    place += {_EIGHT: 8, _FOUR: 4}[kind]
        except (IndexError, KeyError):  # the bytes end too early, or have a type that there is not
            return False
        return False


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """A number, and where it ends. IndexError: it does not."""
    byte = data[place]
    number, shift = byte & 0x7F, 7
    while byte > 0x7F:
        place += 1
        byte = data[place]
        if shift < 70:  # no number has more bits
            number |= (byte & 0x7F) << shift
        shift += 7
    return number, place + 1
