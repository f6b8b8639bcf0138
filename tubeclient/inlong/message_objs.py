"""Protobuf packs: MessageObjs, where each record has its own time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from google.protobuf.message import DecodeError

from tubeclient.errors import CorruptMessage
from tubeclient.inlong.blocks import Limits, unpack_gzip, unpack_snappy
from tubeclient.inlong.wrapping import compression_of
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

    CorruptMessage: the pack is damaged, or unpacks to more than `limits`.
    """
    compression = compression_of(message)
    if compression == "snappy":
        body = unpack_snappy(body, limits, 0)
    elif compression == "gzip":
        body = unpack_gzip(body, limits)
    try:
        found = inlong_pb2.MessageObjs.FromString(body).msgs
    except DecodeError as error:
        raise CorruptMessage(f"the body is no protobuf MessageObjs: {error}") from error
    if len(found) > limits.max_records:
        raise CorruptMessage(f"the pack has {len(found)} records; at most {limits.max_records} are taken")
    attributes = [{pair.key: pair.value for pair in one.params} for one in found]
    for one, own in zip(found, attributes, strict=True):
        if one.sourceIp:
            own.setdefault("sourceIp", one.sourceIp)
    return ObjectRecords([one.body for one in found], [one.msgTime for one in found], attributes)
