"""InLongMsg, versions 1 to 3: groups of records that share their attributes.

    magic, i64 time made (ms), versions 2 and 3: i32 records, i32 groups, the groups, magic
    group: u16 length and attributes as Java's text, version 2: i32 records, i32 length, u8 1 if snappy, the block

A block is entries, a length and a body each. In version 3 each entry is itself a sequence of pairs of entries: a body
and that record's own attributes, which count before those of the group.
Facts read in `org.apache.inlong.common.msg.InLongMsg`; its parser gives up silently where this one raises.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tubeclient.errors import CorruptMessage
from tubeclient.inlong.attributes import parse_pairs, read_java_text
from tubeclient.inlong.blocks import LENGTH, Limits, entry_starts, unpack_block

__all__ = ["HEADS", "MAGIC", "MAGIC_BYTES", "TEXT_LENGTH", "Run", "pairs_run", "runs_of_pack", "version_of"]

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
