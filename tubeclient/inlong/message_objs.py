"""Protobuf packs: MessageObjs, where each record has its own time."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, Literal, NamedTuple

from tubeclient.errors import CorruptMessage, ProtocolError
from tubeclient.inlong.attributes import MESSAGE_GROUP_ID, checked_millis
from tubeclient.inlong.blocks import Limits, unpack_gzip, unpack_snappy
from tubeclient.inlong.packs import version_of
from tubeclient.wire.envelope import parse_message
from tubeclient.wire.proto import inlong_pb2

Payload = Literal["inlong", "auto"]
"""The configured kind of messages: all are InLong's, or each is detected."""

_VERSION: Final = "version"
_ENCODING: Final = "msgEnType"
_COMPRESSION: Final = "compressType"


class Wrapping(Enum):
    """The values are InLong's numbers (MessageWrapType)."""

    RAW = "0"
    """The body is one record."""
    MESSAGE_OBJS = "1"
    """The body is a protobuf list of records."""
    PACK = "2"
    """The body is an InLongMsg."""


_COMPRESSIONS: Final = {
    "0": "none",
    "NONE": "none",
    "1": "gzip",
    "INLONG_GZ": "gzip",
    "2": "snappy",
    "INLONG_SNAPPY": "snappy",
}


def wrapping_of(message: Mapping[str, str], body: bytes, payload: Payload) -> Wrapping:
    """Return how the message with these attributes wraps its records.

    With "auto" a message is InLong's if it names its wrapping as DataProxy does, or has the magic; all others are RAW.
    With "inlong" a message without a named wrapping is a PACK, as in InLong's sort SDK. CorruptMessage: the named
    wrapping is unknown.
    """
    named = message.get(_VERSION, message.get(_ENCODING))
    if payload == "auto" and _ENCODING not in message and MESSAGE_GROUP_ID not in message:
        named = None  # any producer may use an attribute "version"
    if named is None:
        return Wrapping.PACK if payload == "inlong" or version_of(body) is not None else Wrapping.RAW
    try:
        return Wrapping(named)
    except ValueError:
        raise CorruptMessage(f"the message names wrapping {named[:50]!r}; 0, 1 and 2 are known") from None


def compression_of(message: Mapping[str, str]) -> str:
    """Return "none", "gzip" or "snappy". CorruptMessage: the message names another compression."""
    named = message.get(_COMPRESSION, "0")
    if named not in _COMPRESSIONS:
        raise CorruptMessage(f"the message names compression {named[:50]!r}; known are {', '.join(_COMPRESSIONS)}")
    return _COMPRESSIONS[named]


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
    try:
        records = parse_message(inlong_pb2.MessageObjs, body).msgs
    except ProtocolError as error:
        raise CorruptMessage(f"the protobuf pack cannot be parsed: {error}") from error
    if max(len(records), sum(len(one.params) for one in records)) > limits.max_records:
        raise CorruptMessage(f"the protobuf pack has more than {limits.max_records} records or parameters")
    found = ObjectRecords([], [], [])
    for one in records:
        attributes = {pair.key: pair.value for pair in one.params}
        if one.sourceIp:
            attributes.setdefault("sourceIp", one.sourceIp)
        found.bodies.append(one.body)
        found.times_ms.append(checked_millis(one.msgTime, "msgTime"))
        found.attributes.append(attributes)
    return found
