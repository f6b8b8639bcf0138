"""The format of messages on disk, which is also ready for the wire.

An index entry is 28 bytes: partition id, position in the data file, record size, tag hash, time of receipt in ms. A
record of the data file is TubeMQ's 52-byte header, then the message as a TransferedMessage field of a
GetMessageResponse, payload last. So an answer to a fetch consists of slices of the data file; messages are not parsed
again. Lengths and numbers of the wire part are varints padded to a fixed width, which protobuf readers must accept; so
every wire prefix is 32 bytes long. All integers of the headers are big-endian.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np

from tubeclient.keys import INDEX_ENTRY_BYTES
from tubeclient.wire.payload import checksum

__all__ = [
    "CHECKSUM_BYTE_IN_WIRE",
    "HEADER_BYTES",
    "INDEX_DTYPE",
    "INDEX_ENTRY",
    "WIRE_PREFIX_BYTES",
    "Record",
    "decode_record",
    "encode_index_entry",
    "encode_record",
    "wire_checksum",
]

HEADER = struct.Struct(">iIiiqqiiqi")
HEADER_BYTES = HEADER.size  # 52
MAGIC = 0x02C998B8
LENGTH_BEHIND = 48
"""The header's first field counts the header bytes after itself, 48, and the payload, but not our wire prefix (the
field is TubeMQ's)."""

INDEX_ENTRY = struct.Struct(">iqiiq")
INDEX_DTYPE = np.dtype(
    [("partition", ">i4"), ("position", ">i8"), ("size", ">i4"), ("tag_hash", ">i4"), ("received_ms", ">i8")]
)
assert INDEX_ENTRY.size == INDEX_DTYPE.itemsize == INDEX_ENTRY_BYTES

_WIRE = struct.Struct(">c4sc9sc5sc5sc4s")
WIRE_PREFIX_BYTES = _WIRE.size  # 32
_WIRE_AFTER_LENGTH = WIRE_PREFIX_BYTES - 5
CHECKSUM_BYTE_IN_WIRE = 16
"""Position of the checksum's first varint byte in the wire part."""


class Record(NamedTuple):
    """One message of a store: its header fields, and the payload (attributes and body)."""

    partition_id: int
    index_offset: int  # bytes
    received_ms: int
    sender_ip: int
    tag_hash: int  # -1 without a tag
    message_id: int
    flag: int
    payload: bytes

    @property
    def size(self) -> int:
        """Bytes the record takes in the data file."""
        return HEADER_BYTES + WIRE_PREFIX_BYTES + len(self.payload)


def encode_record(record: Record) -> bytes:
    """Return the record's bytes for the data file."""
    payload = record.payload
    length, crc = len(payload), checksum(payload)
    header = HEADER.pack(
        LENGTH_BEHIND + length,
        MAGIC,
        crc,
        record.partition_id,
        record.index_offset,
        record.received_ms,
        record.sender_ip,
        record.tag_hash,
        record.message_id,
        record.flag,
    )
    prefix = _WIRE.pack(
        b"\x22",  # GetMessageResponseB2C.messages
        _padded(_WIRE_AFTER_LENGTH + length, 4),
        b"\x08",  # messageId
        _padded(record.message_id, 9),
        b"\x10",  # checkSum
        _padded(crc, 5),
        b"\x20",  # flag
        _padded(record.flag & 0xFFFFFFFF, 5),
        b"\x1a",  # payLoadData
        _padded(length, 4),
    )
    return b"".join((header, prefix, payload))


def encode_index_entry(record: Record, position: int) -> bytes:
    """Return the index entry of a record that starts at `position` of the data file."""
    return INDEX_ENTRY.pack(record.partition_id, position, record.size, record.tag_hash, record.received_ms)


def decode_record(data: bytes | memoryview, start: int = 0) -> Record | None:
    """Return the record at `start`, or None if there is no complete record with a correct checksum."""
    if len(data) - start < HEADER_BYTES:
        return None
    length, magic, crc, partition_id, offset, received, sender, tag_hash, message_id, flag = HEADER.unpack_from(
        data, start
    )
    payload_start = start + HEADER_BYTES + WIRE_PREFIX_BYTES
    payload_end = payload_start + length - LENGTH_BEHIND
    if magic != MAGIC or length < LENGTH_BEHIND or payload_end > len(data):
        return None
    payload = bytes(data[payload_start:payload_end])
    if checksum(payload) != crc:
        return None
    return Record(partition_id, offset, received, sender, tag_hash, message_id, flag, payload)


def wire_checksum(wire: bytes) -> int:
    """The checksum field of a wire part."""
    return sum(
        (byte & 0x7F) << (7 * n) for n, byte in enumerate(wire[CHECKSUM_BYTE_IN_WIRE : CHECKSUM_BYTE_IN_WIRE + 5])
    )


def _padded(value: int, width: int) -> bytes:
    """`value` as a varint of exactly `width` bytes."""
    out = bytearray(width)
    for n in range(width - 1):
        out[n] = value & 0x7F | 0x80
        value >>= 7
    out[width - 1] = value & 0x7F
    return bytes(out)
