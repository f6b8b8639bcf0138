"""Makes packs as DataProxy and InLong's SDKs send them, from records one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from tubeclient.errors import ConfigurationError
from tubeclient.inlong.attributes import GROUP_ID, STREAM_ID, attribute_text, write_java_text
from tubeclient.inlong.blocks import LENGTH, pack_gzip, pack_snappy
from tubeclient.inlong.packs import (
    END_MARK,
    FIXED_BYTES,
    HEAD,
    HEADS,
    MAGIC,
    NAMES_NOT_NUMBERS,
    OWN_ATTRIBUTES,
    SNAPPY_TYPE,
    TEXT_LENGTH,
)
from tubeclient.wire.message_time import moment_ms
from tubeclient.wire.proto import inlong_pb2

_BIN_TYPE = 7
"""A binary message of many records."""


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


def encode_bin_pack(
    records: Sequence[bytes] | Sequence[OwnRecord],
    attributes: Mapping[str, str],
    *,
    data_time_s: int | datetime,
    numbers: tuple[int, int] | None = None,
    snappy: bool = True,
    unique: int = 0,
) -> bytes:
    """Return an InLongMsg of version 4. `numbers` are groupId and streamId as numbers; without them the attributes name
    them. `data_time_s` is in seconds since 1970, or a datetime with a zone.

    All records are bytes, or all are OwnRecord. ConfigurationError: attributes cannot be written, or are too long; the
    datetime has no zone.
    """
    if isinstance(data_time_s, datetime):
        data_time_s = moment_ms(data_time_s, "data_time_s") // 1000
    if numbers is None and not {GROUP_ID, STREAM_ID} <= attributes.keys():
        raise ConfigurationError(f"a pack without numbers needs {GROUP_ID} and {STREAM_ID} among its attributes")
    own = any(isinstance(one, OwnRecord) for one in records)
    body = b"".join(_pair(one) if isinstance(one, OwnRecord) else _entry(one) for one in records)
    body = pack_snappy(body) if snappy else body
    text = attribute_text(attributes).encode()
    flags = (OWN_ATTRIBUTES if own else 0) | (NAMES_NOT_NUMBERS if numbers is None else 0)
    kind = _BIN_TYPE | (SNAPPY_TYPE if snappy else 0)
    total = FIXED_BYTES - 4 + len(body) + len(text)
    count = len(records)
    if count > 0xFFFF:
        raise ConfigurationError(f"a pack of version 4 holds at most 65 535 records; these are {count}")
    head = HEAD.pack(total, kind, *(numbers or (0, 0)), flags, data_time_s, count, unique, len(body))
    magic = bytes([MAGIC, 4])
    return b"".join([magic, head, body, _text_length(text), text, TEXT_LENGTH.pack(END_MARK), magic])


def encode_message_objs(
    records: Sequence[OwnRecord],
    times_ms: Sequence[int | datetime],
    compression: Literal["none", "gzip", "snappy"] = "snappy",
    source_ip: str = "",
) -> bytes:
    """Return a protobuf pack. Its message needs the attributes `version=1` and `compressType` 0, 1 or 2. `times_ms` are
    in milliseconds since 1970, or datetimes with a zone."""
    objs = inlong_pb2.MessageObjs()
    for record, time_ms in zip(records, times_ms, strict=True):
        one = objs.msgs.add(msgTime=moment_ms(time_ms, "msgTime"), sourceIp=source_ip, body=record.body)
        for key, value in record.attributes.items():
            one.params.add(key=key, value=value)
    data = objs.SerializeToString()
    if compression == "none":
        return data
    return pack_gzip(data) if compression == "gzip" else pack_snappy(data)


def _entry(body: bytes) -> bytes:
    return LENGTH.pack(len(body)) + body


def _pair(record: OwnRecord) -> bytes:
    return _entry(record.body) + _entry(attribute_text(record.attributes).encode())


def _text_length(text: bytes) -> bytes:
    if len(text) > 0xFFFF:
        raise ConfigurationError(f"attributes of {len(text)} bytes do not fit a pack; at most 65 535 do")
    return TEXT_LENGTH.pack(len(text))
