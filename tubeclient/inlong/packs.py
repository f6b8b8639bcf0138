"""InLongMsg. Versions 1 to 3 are groups of records that share their attributes.

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
one raises.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tubeclient.errors import CorruptMessage
from tubeclient.inlong.attributes import (
    DATA_TIME,
    GROUP_ID,
    MESSAGE_GROUP_ID,
    MESSAGE_STREAM_ID,
    STREAM_ID,
    parse_pairs,
    read_java_text,
)
from tubeclient.inlong.blocks import LENGTH, Limits, entry_starts, unpack_block

MAGIC: Final = 0x0F
MAGIC_BYTES: Final = 2

HEADS: Final = {1: struct.Struct(">qI"), 2: struct.Struct(">qII"), 3: struct.Struct(">qII")}
"""Time made, records from version 2 on, groups."""

TEXT_LENGTH: Final = struct.Struct(">H")


@dataclass(frozen=True, slots=True)
class Run:
    """Adjacent records with common attributes."""

    attributes: dict[str, str]
    block: bytes
    starts: list[int]
    """The start of each entry of `block`, and the run's end. An entry is a LENGTH and so many bytes."""
    has_own: bool
    """Every second entry has the attributes of the record before it."""
    own_counts: bool = True
    """A record's attributes override those of its run."""

    def __len__(self) -> int:
        """Number of records."""
        entries = len(self.starts) - 1
        return entries // 2 if self.has_own else entries

    def bodies(self) -> list[bytes]:
        """The records one by one."""
        return self._entries(0)

    def own_texts(self) -> list[bytes]:
        """The texts of the records' own attributes; only if it `has_own`."""
        return self._entries(1)

    def _entries(self, first: int) -> list[bytes]:
        step = 2 if self.has_own else 1
        begin, end, size = self.starts[first:-1:step], self.starts[first + 1 :: step], LENGTH.size
        return [self.block[start + size : stop] for start, stop in zip(begin, end, strict=True)]


def version_of(message: bytes) -> int | None:
    """Return the version in the magic at both ends of a message; None if there is none.

    Apache's parser also accepts a version 0, which was never written.
    """
    if len(message) < 2 * MAGIC_BYTES or message[0] != MAGIC or message[:MAGIC_BYTES] != message[-MAGIC_BYTES:]:
        return None
    return message[1] if 1 <= message[1] <= 4 else None


def runs_of_pack(message: bytes, limits: Limits) -> Iterator[Run]:
    """Yield the records of a pack of version 1, 2 or 3, in the order of their bytes.

    CorruptMessage that names the byte: the pack is cut off, damaged, or unpacks to more than `limits`.
    """
    version, end = message[1], len(message) - MAGIC_BYTES
    head = HEADS[version]
    place = MAGIC_BYTES + head.size
    if place > end:
        raise CorruptMessage(f"the pack has {len(message)} bytes, fewer than the head of version {version}")
    groups = head.unpack_from(message, MAGIC_BYTES)[-1]
    for number in range(groups):
        where = f"group {number} of {groups} of the pack"
        if place + TEXT_LENGTH.size > end:
            raise CorruptMessage(f"{where} should begin at byte {place}, where the pack ends")
        text_start = place + TEXT_LENGTH.size
        text_end = text_start + TEXT_LENGTH.unpack_from(message, place)[0]
        length_at = text_end + (LENGTH.size if version == 2 else 0)
        if length_at + LENGTH.size > end:
            raise CorruptMessage(
                f"{where} has {text_end - text_start} bytes of attributes at byte {text_start}: too many"
            )
        block_start = length_at + LENGTH.size
        place = block_start + LENGTH.unpack_from(message, length_at)[0]
        if not block_start < place <= end:
            raise CorruptMessage(
                f"{where} has a block of {place - block_start} bytes at byte {block_start}, where {end - block_start} "
                "are left"
            )
        attributes = parse_pairs(read_java_text(message[text_start:text_end], text_start))
        said = f"{where} says at byte {block_start} that its block"
        block = unpack_block(message[block_start], message[block_start + 1 : place], limits, block_start + 1, said)
        records = 0
        for run in _runs_of_block(block, attributes, limits, where, version == 3):
            records += len(run)
            yield run
        limits = limits.less(len(block), records)
    if place != end:
        raise CorruptMessage(f"{end - place} bytes follow the last group of the pack at byte {place}")


def _runs_of_block(
    block: bytes, attributes: dict[str, str], limits: Limits, where: str, has_own: bool
) -> Iterator[Run]:
    where = f"the unpacked block of {where}"
    starts = entry_starts(block, 0, len(block), limits.max_records, where)
    if not has_own:
        yield Run(attributes, block, starts, False)
        return
    for start, end in pairwise(starts):
        run = pairs_run(block, start + LENGTH.size, end, attributes, limits, where)
        limits = limits.less(0, len(run))
        yield run


def pairs_run(
    block: bytes,
    start: int,
    end: int,
    attributes: dict[str, str],
    limits: Limits,
    where: str,
    own_counts: bool = True,
) -> Run:
    """Return the run of the pairs in block[start:end]: a record, its own attributes, and so on."""
    starts = entry_starts(block, start, end, 2 * limits.max_records, where)
    if len(starts) % 2 == 0:
        raise CorruptMessage(f"{where} has a record at byte {starts[-2]} that lacks its own attributes")
    return Run(attributes, block, starts, True, own_counts)


HEAD: Final = struct.Struct(">iBHHHIHIi")
"""All fields before the body."""
END_MARK: Final = 0xEE01
FIXED_BYTES: Final = HEAD.size + 2 * TEXT_LENGTH.size
"""All but body and attributes."""

OWN_ATTRIBUTES: Final = 1
"""Flag: each record is followed by its own attributes."""
NAMES_NOT_NUMBERS: Final = 4
"""Flag: groupId and streamId are names, in the attributes."""
SNAPPY_TYPE: Final = 1 << 5


def run_of_bin_pack(message: bytes, outer: Mapping[str, str], limits: Limits) -> Run:
    """Return the records of a pack of version 4. `outer` are the attributes of its message: where the pack has numbers
    for group and stream, the names in there count.

    CorruptMessage that names the byte: the pack is cut off, damaged, or unpacks to more than `limits`.
    """
    pack_end = len(message) - MAGIC_BYTES
    if pack_end < MAGIC_BYTES + FIXED_BYTES:
        raise CorruptMessage(f"the pack has {len(message)} bytes, fewer than the head of version 4")
    total, kind, group, stream, flags, seconds, _, _, body_bytes = HEAD.unpack_from(message, MAGIC_BYTES)
    start = MAGIC_BYTES + HEAD.size
    end = start + body_bytes
    text_start = end + TEXT_LENGTH.size
    if body_bytes < 0 or text_start + TEXT_LENGTH.size > pack_end:
        raise CorruptMessage(f"the pack's body of {body_bytes} bytes at byte {start} goes past its end")
    text_end = text_start + TEXT_LENGTH.unpack_from(message, end)[0]
    whole = text_end + TEXT_LENGTH.size
    if whole != pack_end or total + 4 != whole - MAGIC_BYTES:
        raise CorruptMessage(
            f"the lengths of the pack do not agree: {total} bytes after byte 6, a body of {body_bytes}, attributes of "
            f"{text_end - text_start}, {len(message)} in all"
        )
    if TEXT_LENGTH.unpack_from(message, text_end)[0] != END_MARK:
        raise CorruptMessage(f"the pack's attributes are not followed by EE01 at byte {text_end}")
    try:
        attributes = parse_pairs(message[text_start:text_end].decode())
    except UnicodeDecodeError as error:
        raise CorruptMessage(f"the attributes at byte {text_start} are not UTF-8: {error}") from error
    attributes[DATA_TIME] = str(seconds * 1000)
    if not flags & NAMES_NOT_NUMBERS:
        attributes[GROUP_ID] = outer.get(MESSAGE_GROUP_ID, str(group))
        attributes[STREAM_ID] = outer.get(MESSAGE_STREAM_ID, str(stream))
    block = unpack_block(kind >> 5, message[start:end], limits, start, "the pack says at byte 6 that its body")
    where = "the unpacked body of the pack"
    if flags & OWN_ATTRIBUTES:
        return pairs_run(block, 0, len(block), attributes, limits, where, own_counts=False)
    return Run(attributes, block, entry_starts(block, 0, len(block), limits.max_records, where), False)
