"""Makes packs as DataProxy sends them, from records one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from tubeclient.errors import ConfigurationError
from tubeclient.inlong.attributes import attribute_text, write_java_text
from tubeclient.inlong.blocks import LENGTH, pack_snappy
from tubeclient.inlong.packs import HEADS, MAGIC, TEXT_LENGTH
from tubeclient.wire.message_time import moment_ms


class OwnRecord(NamedTuple):
    """A record with its own attributes."""

    body: bytes
    attributes: Mapping[str, str]


class RecordGroup(NamedTuple):
    """Records that share attributes; `groupId`, `streamId` and `dt` (ms) should be among these."""

    attributes: Mapping[str, str]
    records: Sequence[bytes] | Sequence[OwnRecord]
    """OwnRecord in version 3, and bytes in all others."""


class Block(NamedTuple):
    """A group of records, ready to be compressed."""

    attributes: bytes
    """As Java's text."""
    records: int
    content: bytes


def encode_pack(
    groups: Sequence[RecordGroup], version: Literal[1, 2, 3] = 1, *, made_ms: int | datetime, snappy: bool = True
) -> bytes:
    """Return an InLongMsg with these groups. `made_ms` is in milliseconds since 1970, or a datetime with a zone.

    ConfigurationError: attributes cannot be written, or are too long; the datetime has no zone.
    """
    blocks = []
    for group in groups:
        entries = [_pair(one) for one in group.records] if version == 3 else group.records  # type: ignore[arg-type]
        block = b"".join(map(_entry, entries))  # type: ignore[arg-type]
        blocks.append(Block(write_java_text(attribute_text(group.attributes)), len(group.records), block))
    return pack_blocks(blocks, version, made_ms=moment_ms(made_ms, "made_ms"), snappy=snappy)


def pack_blocks(blocks: Sequence[Block], version: Literal[1, 2, 3], *, made_ms: int, snappy: bool) -> bytes:
    """Return an InLongMsg with these blocks. ConfigurationError: attributes are too long."""
    magic = bytes([MAGIC, version])
    count = sum(block.records for block in blocks)
    parts = [magic, HEADS[version].pack(made_ms, *([count] if version > 1 else []), len(blocks))]
    for block in blocks:
        parts += [_text_length(block.attributes), block.attributes]
        if version == 2:
            parts.append(LENGTH.pack(block.records))
        content = pack_snappy(block.content) if snappy else block.content
        parts += [LENGTH.pack(len(content) + 1), bytes([snappy]), content]
    return b"".join([*parts, magic])


def _entry(body: bytes) -> bytes:
    return LENGTH.pack(len(body)) + body


def _pair(record: OwnRecord) -> bytes:
    return _entry(record.body) + _entry(attribute_text(record.attributes).encode())


def _text_length(text: bytes) -> bytes:
    if len(text) > 0xFFFF:
        raise ConfigurationError(f"attributes of {len(text)} bytes do not fit a pack; at most 65 535 do")
    return TEXT_LENGTH.pack(len(text))
