"""Protobuf packs: MessageObjs, where each record has its own time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from tubeclient.errors import CorruptMessage
from tubeclient.inlong.attributes import checked_millis
from tubeclient.inlong.blocks import Limits, unpack_gzip, unpack_snappy
from tubeclient.inlong.wrapping import compression_of
from tubeclient.wire.proto import inlong_pb2

__all__ = ["ObjectRecords", "records_of_objs"]

_RECORD_TAG: Final = 0x0A
"""Field 1 of MessageObjs."""
_VARINT, _LENGTH_DELIMITED = 0, 2
_REQUIRED: Final = ("msgTime", "sourceIp", "body")
_SHORT_RECORD_BYTES: Final = 100_000


class ObjectRecords(NamedTuple):
    """Columns of equal length."""

    bodies: list[bytes]
    times_ms: list[int]
    attributes: list[dict[str, str]]
    """The records' parameters, with `sourceIp` if it is not empty."""


def records_of_objs(message: Mapping[str, str], body: bytes, limits: Limits) -> ObjectRecords:
    """Return the records of a protobuf pack, compressed as the message's attributes say.

    CorruptMessage: the pack is damaged, or exceeds `limits` in bytes, in records or in parameters of all records.
    """
    compression = compression_of(message)
    if compression == "snappy":
        body = unpack_snappy(body, limits, 0)
    elif compression == "gzip":
        body = unpack_gzip(body, limits)
    else:
        limits.check_bytes(len(body), "the protobuf pack")
    found = ObjectRecords([], [], [])
    left = limits.max_records
    # One record at a time: parsed protobuf takes up to fifty times the memory of its bytes.
    for number, (start, end) in enumerate(_record_places(body)):
        where = f"record {number} of the protobuf pack, at byte {start},"
        if number >= limits.max_records:
            raise CorruptMessage(f"the protobuf pack has more than {limits.max_records} records; no more are taken")
        _check_field_count(body, start, end, left, where)
        try:
            one = inlong_pb2.MessageObj.FromString(body[start:end])
        except DecodeError as error:
            raise CorruptMessage(f"{where} is no MessageObj: {error}") from error
        lacking = [name for name in _REQUIRED if not one.HasField(name)]
        if lacking:  # which not all parsers check
            raise CorruptMessage(f"{where} lacks {', '.join(lacking)}")
        left -= len(one.params)
        attributes = {pair.key: pair.value for pair in one.params}
        if one.sourceIp:
            attributes.setdefault("sourceIp", one.sourceIp)
        # The parser returns bytes for text that is not UTF-8.
        if left < 0 or not all(isinstance(text, str) for pair in attributes.items() for text in pair):
            what = "too many parameters" if left < 0 else "parameters that are not UTF-8"
            raise CorruptMessage(f"{where} has {what}")
        found.bodies.append(one.body)
        found.times_ms.append(checked_millis(one.msgTime, "msgTime"))
        found.attributes.append(attributes)
    return found


def _record_places(body: bytes) -> Iterator[tuple[int, int]]:
    """Yield where the records of a MessageObjs begin and end. It has no other fields, so another one is damage."""
    at = 0
    while at < len(body):
        if body[at] != _RECORD_TAG:
            raise CorruptMessage(f"the body is no protobuf MessageObjs: byte {at} begins no record")
        length, start = _varint(body, at + 1)
        at = start + length
        if at > len(body):
            raise CorruptMessage(f"the protobuf pack ends within the record at byte {start}")
        yield start, at


def _check_field_count(body: bytes, start: int, end: int, most: int, where: str) -> None:
    """Raise CorruptMessage before a long record with too many fields is parsed; a short one cannot have many."""
    if end - start <= _SHORT_RECORD_BYTES:
        return
    at = start
    for _ in range(most + len(_REQUIRED) + 1):
        if at >= end:
            return
        tag, at = _varint(body, at)
        if tag & 7 == _LENGTH_DELIMITED:
            length, at = _varint(body, at)
            at += length
        elif tag & 7 == _VARINT:
            _, at = _varint(body, at)
        else:
            return  # no field of a record; the parser says so
    raise CorruptMessage(f"{where} has too many parameters")


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """Return the number at `at`, and where it ends."""
    number = 0
    for place, byte in enumerate(body[at : at + 10]):
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number, at + place + 1
    raise CorruptMessage(f"the protobuf pack has no whole number at byte {at}")
