"""InLongMsg, version 4: one binary message of InLong's SDKs between two magics.

    @0 i32 bytes that follow, @4 u8 type (bits 5 to 7: 1 if the body is a snappy block), @5 u16 groupId, @7 u16
    streamId, @9 u16 flags, @11 u32 data time (s), @15 u16 records, @17 u32 unique number, @21 i32 body bytes, @25 body,
    u16 attribute bytes, attributes (UTF-8), u16 EE01

Facts read in `org.apache.inlong.common.msg.InLongMsg`; its parser gives up silently where this one raises. It reads
the two numbers and the time as signed, so it shows numbers from 32 768 on, and times from 2038 on, as negative ones.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from tubeclient.errors import CorruptMessage
from tubeclient.inlong.attributes import (
    DATA_TIME,
    GROUP_ID,
    MESSAGE_GROUP_ID,
    MESSAGE_STREAM_ID,
    STREAM_ID,
    parse_pairs,
)
from tubeclient.inlong.blocks import Limits, entry_starts, unpack_block
from tubeclient.inlong.packs import MAGIC_BYTES, TEXT_LENGTH, Run, pairs_run

__all__ = ["END_MARK", "FIXED_BYTES", "HEAD", "NAMES_NOT_NUMBERS", "OWN_ATTRIBUTES", "SNAPPY_TYPE", "run_of_bin_pack"]

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
