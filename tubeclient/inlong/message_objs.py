"""Protobuf packs: MessageObjs, where each record has its own time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tubeclient.errors import CorruptMessage, ProtocolError
from tubeclient.inlong.attributes import checked_millis
from tubeclient.inlong.blocks import Limits, unpack_gzip, unpack_snappy
from tubeclient.inlong.wrapping import compression_of
from tubeclient.wire.envelope import parse_message
from tubeclient.wire.proto import inlong_pb2

__all__ = ["ObjectRecords", "records_of_objs"]


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
