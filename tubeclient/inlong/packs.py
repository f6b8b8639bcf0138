"""InLong's packs: messages that hold many records.

InLongMsg, versions 1 to 3, are groups of records that share their attributes.

    magic, i64 time made (ms), versions 2 and 3: i32 records, i32 groups, the groups, magic
    group: u16 length and attributes as Java's text, version 2: i32 records, i32 length, u8 1 if snappy, the block

A block is entries, a length and a body each. In version 3 each entry is itself a sequence of pairs of entries: a body
and that record's own attributes, which count before those of the group.

Version 4 is one binary message of InLong's SDKs between two magics:

    @0 i32 bytes that follow, @4 u8 type (bits 5 to 7: 1 if the body is a snappy block), @5 u16 groupId, @7 u16
    streamId, @9 u16 flags, @11 u32 data time (s), @15 u16 records, @17 u32 unique number, @21 i32 body bytes, @25 body,
    u16 attribute bytes, attributes (UTF-8), u16 EE01

Apache's parser reads the two numbers and the time as signed, so it shows numbers from 32 768 on, and times from 2038
on, as negative ones. Facts read in `org.apache.inlong.common.msg.InLongMsg`; its parser gives up silently where this
one raises. A protobuf pack is MessageObjs, where each record has its own time.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa

from tubeclient.errors import ConfigurationError, CorruptMessage, ProtocolError
from tubeclient.inlong.attributes import (
    DATA_TIME,
    GROUP_ID,
    MESSAGE_GROUP_ID,
    MESSAGE_STREAM_ID,
    STREAM_ID,
    attribute_text,
    checked_millis,
    parse_pairs,
    read_java_text,
    write_java_text,
)
from tubeclient.wire.envelope import parse_message
from tubeclient.wire.message_time import moment_ms
from tubeclient.wire.proto import inlong_pb2

MAGIC: Final = 0x0F
MAGIC_BYTES: Final = 2

HEADS: Final = {1: struct.Struct(">qI"), 2: struct.Struct(">qII"), 3: struct.Struct(">qII")}
"""Time made, records from version 2 on, groups."""
TEXT_LENGTH: Final = struct.Struct(">H")
LENGTH: Final = struct.Struct(">I")
"""A length inside a pack. Java writes it signed; a negative one is larger than any block here."""

HEAD: Final = struct.Struct(">iBHHHIHIi")
"""Version 4: all fields before the body."""
END_MARK: Final = 0xEE01
OWN_ATTRIBUTES: Final = 1
"""Flag: each record is followed by its own attributes."""
NAMES_NOT_NUMBERS: Final = 4
"""Flag: groupId and streamId are names, in the attributes."""

_SNAPPY_DENSEST: Final = 64 / 3
"""The densest element of a snappy block takes 3 bytes and copies 64
(https://github.com/google/snappy/blob/main/format_description.txt)."""
_GZIP: Final = 16 + zlib.MAX_WBITS
_COMPRESSIONS: Final = {"0": "", "NONE": "", "1": "gzip", "INLONG_GZ": "gzip", "2": "snappy", "INLONG_SNAPPY": "snappy"}


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest unpacked size of one message.

    A larger message is a CorruptMessage, raised before memory is allocated.
    """

    max_bytes: int = 64 << 20
    max_records: int = 1_000_000
    max_repeated_bytes: int = 448 << 20
    """What is in a message once and in columns for each record, in all records together: attributes, ids, tag. Each
    character counts as a byte, and takes up to four, of the 2 GiB that a column may have."""

    def less(self, count: int, records: int) -> Limits:
        """Return the limits that are left after a block of `count` bytes with `records` records."""
        return replace(self, max_bytes=self.max_bytes - count, max_records=self.max_records - records)


Group: TypeAlias = tuple[dict[str, str], list[bytes]]
"""Attributes, and the adjacent records that have them."""


def version_of(message: bytes) -> int | None:
    """The version in the magic at both ends of a message; None if there is none. Nobody ever wrote a version 0."""
    if len(message) < 2 * MAGIC_BYTES or message[0] != MAGIC or message[:MAGIC_BYTES] != message[-MAGIC_BYTES:]:
        return None
    return message[1] if 1 <= message[1] <= 4 else None


def groups_of_pack(message: bytes, outer: Mapping[str, str], limits: Limits) -> Iterator[Group]:
    """Yield the records of an InLongMsg, in the order of their bytes. `outer` are the attributes of its message.
    CorruptMessage: the pack is cut off, damaged, or unpacks to more than `limits`."""
    version = version_of(message)
    if version is None:
        raise CorruptMessage(
            f"the message of {len(message)} bytes is not an InLong pack: it does not begin and end with 0F 01 to 0F "
            "04; payload auto reads such messages as they are"
        )
    if version == 4:
        yield from _groups_of_binary(message, outer, limits)
        return
    message, pos, where = message[:-MAGIC_BYTES], MAGIC_BYTES, "the pack's head"
    try:
        groups = HEADS[version].unpack_from(message, pos)[-1]
        pos += HEADS[version].size
        for number in range(groups):
            where = f"group {number} of {groups} of the pack"
            text_start = pos + TEXT_LENGTH.size
            text_end = text_start + TEXT_LENGTH.unpack_from(message, pos)[0]
            length_at = text_end + (LENGTH.size if version == 2 else 0)
            start = length_at + LENGTH.size
            pos = start + LENGTH.unpack_from(message, length_at)[0]
            if not start < pos <= len(message):
                raise CorruptMessage(f"{where} has a block of {pos - start} bytes at byte {start}: too many")
            attributes = parse_pairs(read_java_text(message[text_start:text_end], text_start))
            block = _unpack(message[start], message[start + 1 : pos], limits, f"the block of {where}")
            limits = limits.less(len(block), 0)
            entries = _entries(block, limits.max_records, f"the unpacked block of {where}")
            if version != 3:
                limits = limits.less(0, len(entries))
                yield attributes, entries
                continue
            for entry in entries:
                for pair in _pairs(entry, attributes, limits, f"an entry of {where}"):
                    limits = limits.less(0, 1)
                    yield pair
    except struct.error:
        raise CorruptMessage(f"{where} is cut off after byte {pos}") from None
    if pos != len(message):
        raise CorruptMessage(f"{len(message) - pos} bytes follow the last group of the pack at byte {pos}")


def _groups_of_binary(message: bytes, outer: Mapping[str, str], limits: Limits) -> Iterable[Group]:
    """Return the records of a pack of version 4. Where it has numbers for group and stream, the names in `outer`
    count."""
    message, start = message[:-MAGIC_BYTES], MAGIC_BYTES + HEAD.size
    try:
        total, kind, group, stream, flags, seconds, _, _, size = HEAD.unpack_from(message, MAGIC_BYTES)
        text_start = start + size + TEXT_LENGTH.size
        text_end = text_start + TEXT_LENGTH.unpack_from(message, start + size)[0]
        mark = TEXT_LENGTH.unpack_from(message, text_end)[0]
    except struct.error:
        raise CorruptMessage(f"the pack of {len(message)} bytes is cut off") from None
    whole = text_end + TEXT_LENGTH.size
    if size < 0 or whole != len(message) or total + 4 != whole - MAGIC_BYTES or mark != END_MARK:
        raise CorruptMessage(
            f"the lengths of the pack do not agree, or its end is not EE01: {total} bytes after byte 6, a body of "
            f"{size}, attributes of {text_end - text_start}, {len(message)} in all, its end at byte {text_end}"
        )
    attributes = parse_pairs(_utf8(message[text_start:text_end], f"the attributes at byte {text_start}"))
    attributes[DATA_TIME] = str(seconds * 1000)
    if not flags & NAMES_NOT_NUMBERS:
        attributes[GROUP_ID] = outer.get(MESSAGE_GROUP_ID, str(group))
        attributes[STREAM_ID] = outer.get(MESSAGE_STREAM_ID, str(stream))
    block = _unpack(kind >> 5, message[start : start + size], limits, "the body of the pack")
    where = "the unpacked body of the pack"
    if flags & OWN_ATTRIBUTES:
        return _pairs(block, attributes, limits, where, own_counts=False)
    return [(attributes, _entries(block, limits.max_records, where))]


def _pairs(
    block: bytes, attributes: dict[str, str], limits: Limits, where: str, *, own_counts: bool = True
) -> Iterator[Group]:
    """The records of a block of pairs: a record, its own attributes, and so on. Its own override the common ones if
    `own_counts`. One by one, as each has a copy of the common ones, and whoever takes them counts their size."""
    entries = _entries(block, 2 * limits.max_records, where)
    if len(entries) % 2:
        raise CorruptMessage(f"{where} has a last record that lacks its own attributes")
    for body, text in zip(entries[::2], entries[1::2], strict=True):
        own = parse_pairs(_utf8(text, "the own attributes of a record"))
        yield ({**attributes, **own} if own_counts else {**own, **attributes}), [body]


def _entries(block: bytes, most: int, where: str) -> list[bytes]:
    """The entries of a block: a LENGTH and so many bytes each."""
    entries: list[bytes] = []
    pos = 0
    while pos < len(block):
        start = pos + LENGTH.size
        if start > len(block):
            raise CorruptMessage(f"{where} ends with {len(block) - pos} bytes at byte {pos} that are not a record")
        if len(entries) == most:
            raise CorruptMessage(f"{where} has too many records: more than {most} entries, which is the limit")
        length = LENGTH.unpack_from(block, pos)[0]
        if start + length > len(block):
            left = len(block) - start
            raise CorruptMessage(f"{where} has a record of {length} bytes at byte {pos}; {left} are left")
        pos = start + length
        entries.append(block[start:pos])
    return entries


def _utf8(text: bytes, what: str) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise CorruptMessage(f"{what} are not UTF-8") from None


def timed_groups(message: Mapping[str, str], body: bytes, limits: Limits) -> Iterator[tuple[int, Group]]:
    """Yield the records of a protobuf pack with their times (ms). It is compressed as the message's attributes say. A
    record's attributes are its parameters, with `sourceIp` if it is not empty."""
    named = message.get("compressType", "0")
    if named not in _COMPRESSIONS:
        raise CorruptMessage(f"the message names an unknown compression; known are {', '.join(_COMPRESSIONS)}")
    if _COMPRESSIONS[named] == "gzip":
        body = _unpack_gzip(body, limits)
    else:
        body = _unpack(_COMPRESSIONS[named] == "snappy", body, limits, "the protobuf pack")
    try:
        records = parse_message(inlong_pb2.MessageObjs, body).msgs
    except ProtocolError as error:
        raise CorruptMessage(f"the protobuf pack cannot be parsed: {error}") from error
    if max(len(records), sum(len(record.params) for record in records)) > limits.max_records:
        raise CorruptMessage(f"the protobuf pack has more than {limits.max_records} records or parameters")
    for record in records:
        attributes = {"sourceIp": record.sourceIp} if record.sourceIp else {}
        attributes |= {pair.key: pair.value for pair in record.params}
        yield checked_millis(record.msgTime, "msgTime"), (attributes, [record.body])


def _unpack(packing: int, block: bytes, limits: Limits, where: str) -> bytes:
    """Return the content of a block that is packed in way 0 (not at all) or 1 (raw snappy). A snappy block starts with
    its unpacked length; one that claims more than it can hold is refused before any memory is allocated."""
    if packing not in (0, 1):
        raise CorruptMessage(f"{where} uses compression {packing}; only 0 and 1 are known")
    length, start = _snappy_length(block, where) if packing else (len(block), 0)
    if length > limits.max_bytes:
        raise CorruptMessage(f"{where} claims to unpack to {length} bytes; the limit is {limits.max_bytes}")
    if not packing:
        return block
    if length > len(block) * _SNAPPY_DENSEST:
        raise CorruptMessage(f"{where} has {len(block)} bytes, too few for the {length} that it claims to unpack to")
    if length == 0:  # the codec does not accept empty output
        if len(block) > start:
            raise CorruptMessage(f"{where} claims to be empty but has {len(block) - start} bytes more")
        return b""
    try:
        data: bytes = pa.decompress(block, decompressed_size=length, codec="snappy", asbytes=True)
    except (OSError, ValueError) as error:
        raise CorruptMessage(f"{where} is damaged: {error}") from error
    return data


def _snappy_length(block: bytes, where: str) -> tuple[int, int]:
    """Return the unpacked length, and how many bytes it takes."""
    length = 0
    for number, byte in enumerate(block[:5]):
        length |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            return length, number + 1
    raise CorruptMessage(f"{where} does not start with its unpacked length")


def _unpack_gzip(block: bytes, limits: Limits) -> bytes:
    """Return the content of a gzip file of one member."""
    unpacker = zlib.decompressobj(_GZIP)
    try:
        data = unpacker.decompress(block, limits.max_bytes + 1)
    except zlib.error as error:
        raise CorruptMessage(f"the gzip block is damaged: {error}") from error
    if len(data) > limits.max_bytes:
        raise CorruptMessage(f"the gzip block unpacks to more than {limits.max_bytes} bytes, which is the limit")
    if not unpacker.eof or unpacker.unused_data:
        raise CorruptMessage("the gzip block is cut off, or bytes follow it")
    return data


class RecordGroup(NamedTuple):
    """Records that share attributes.

    Attributes:
        attributes: They should include `groupId`, `streamId` and `dt` (ms).
    """

    attributes: Mapping[str, str]
    records: Sequence[bytes]


def encode_pack(groups: Sequence[RecordGroup], *, made_ms: int | datetime, snappy: bool = True) -> bytes:
    """Return an InLongMsg of version 1 with these groups, as DataProxy sends them.

    Args:
        made_ms: Milliseconds since 1970, or a datetime with a zone.
        snappy: Whether to compress the records.

    Raises:
        ConfigurationError: Attributes cannot be written or are too long, or the datetime has no zone.
    """
    magic = bytes([MAGIC, 1])
    parts = [magic, HEADS[1].pack(moment_ms(made_ms, "made_ms"), len(groups))]
    for group in groups:
        text = write_java_text(attribute_text(group.attributes))
        if len(text) > 0xFFFF:
            raise ConfigurationError(f"attributes of {len(text)} bytes do not fit into a pack; the limit is 65 535")
        block = b"".join(LENGTH.pack(len(record)) + record for record in group.records)
        if snappy:
            block = pa.compress(block, codec="snappy", asbytes=True) if block else b"\0"
        parts += [TEXT_LENGTH.pack(len(text)), text, LENGTH.pack(len(block) + 1), bytes([snappy]), block]
    return b"".join([*parts, magic])
