"""Blocks of records: raw snappy, gzip or plain bytes, with limits on their unpacked size.

A raw snappy block starts with its unpacked length as a varint. Its densest element takes 3 bytes and copies 64. A block
that claims more is damaged, and is refused before any memory is allocated
(https://github.com/google/snappy/blob/main/format_description.txt).
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, replace

import pyarrow as pa

from tubeclient.errors import CorruptMessage

LENGTH = struct.Struct(">I")
"""A length inside a pack: big-endian, 4 bytes. Java writes it signed; a negative one is larger than any block here."""

_LENGTH_BYTES = LENGTH.size
_SNAPPY_DENSEST = 64 / 3
_GZIP = 16 + zlib.MAX_WBITS


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest unpacked size of one message. More is a CorruptMessage, raised before memory is allocated."""

    max_bytes: int = 64 << 20
    max_records: int = 1_000_000
    max_repeated_bytes: int = 512 << 20
    """What is in a message once and in columns for each record, in all records together: attributes, ids, tag."""

    def less(self, count: int, records: int) -> Limits:
        """The limits that are left after a block of `count` bytes with so many records."""
        return replace(self, max_bytes=self.max_bytes - count, max_records=self.max_records - records)

    def check_bytes(self, count: int, what: str) -> None:
        """Raise CorruptMessage if `what` would have more than `max_bytes`."""
        if count > self.max_bytes:
            raise CorruptMessage(f"{what} claims to unpack to {count} bytes; at most {self.max_bytes} are taken")


def unpack_snappy(block: bytes, limits: Limits, at: int) -> bytes:
    """Return the content of a raw snappy block. `at` is the block's position in its message, for the error.

    CorruptMessage: the block is damaged, or its length is wrong.
    """
    where = f"the snappy block at byte {at}"
    length, start = _snappy_length(block, where)
    limits.check_bytes(length, where)
    if length > len(block) * _SNAPPY_DENSEST:
        raise CorruptMessage(
            f"{where} has {len(block)} bytes and claims to unpack to {length}: they cannot hold so much"
        )
    if length == 0:  # the codec does not accept empty output
        if len(block) > start:
            raise CorruptMessage(f"{where} claims to be empty and has {len(block) - start} bytes more")
        return b""
    try:
        data: bytes = pa.decompress(block, decompressed_size=length, codec="snappy", asbytes=True)
    except (OSError, ValueError) as error:
        raise CorruptMessage(f"{where} is damaged: {error}") from error
    return data


def unpack_block(packing: int, block: bytes, limits: Limits, at: int, where: str) -> bytes:
    """Return the content of a block that is packed in InLongMsg's way 0 (not at all) or 1 (snappy). `at` is the block's
    position in its message; `where` begins the error for any other way.

    CorruptMessage: there is no such way, or as `unpack_snappy`.
    """
    if packing == 1:
        return unpack_snappy(block, limits, at)
    if packing == 0:
        return block
    raise CorruptMessage(f"{where} is packed in way {packing}; there are 0 and 1")


def _snappy_length(block: bytes, where: str) -> tuple[int, int]:
    """Return the unpacked length, and how many bytes it takes."""
    length = 0
    for number, byte in enumerate(block[:5]):
        length |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            return length, number + 1
    raise CorruptMessage(f"{where} does not start with its unpacked length")


def pack_snappy(data: bytes) -> bytes:
    """Return `data` as a raw snappy block."""
    return pa.compress(data, codec="snappy", asbytes=True) if data else b"\0"


def unpack_gzip(block: bytes, limits: Limits) -> bytes:
    """Return the content of a gzip file of one member. CorruptMessage: it is damaged, cut off, or over the limit."""
    unpacker = zlib.decompressobj(_GZIP)
    try:
        data = unpacker.decompress(block, limits.max_bytes + 1)
    except zlib.error as error:
        raise CorruptMessage(f"the gzip block is damaged: {error}") from error
    if len(data) > limits.max_bytes:
        raise CorruptMessage(f"the gzip block unpacks to more than {limits.max_bytes} bytes; no more are taken")
    if not unpacker.eof:
        raise CorruptMessage("the gzip block is cut off")
    if unpacker.unused_data:
        raise CorruptMessage(f"{len(unpacker.unused_data)} bytes follow the gzip block")
    return data


def entry_starts(block: bytes, start: int, end: int, max_entries: int, where: str) -> list[int]:
    """Return the starts of the entries in block[start:end], and `end` last. An entry is a LENGTH and so many bytes.

    CorruptMessage: an entry does not end where the next one begins or the block ends; `where` names the block.
    """
    starts: list[int] = []
    add, length_at, place, last = starts.append, LENGTH.unpack_from, start, end - _LENGTH_BYTES
    for _ in range(max_entries):
        if place > last:
            break
        add(place)
        place += length_at(block, place)[0] + _LENGTH_BYTES
    if place < end and place <= last:
        raise CorruptMessage(f"{where} has too many records: more than {max_entries} entries; no more are taken")
    if place < end:
        raise CorruptMessage(f"{where} ends with {end - place} bytes at byte {place} that are no record")
    if place > end:
        begin = starts[-1]
        length = LENGTH.unpack_from(block, begin)[0]
        raise CorruptMessage(
            f"{where} has a record of {length} bytes at byte {begin}, where {end - begin - _LENGTH_BYTES} are left"
        )
    add(end)
    return starts
