"""How a store's files are written: messages in the data file, entries in the index, and small files of JSON."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np

from tubeclient.errors import ConfigurationError
from tubeclient.wire.payload import checksum

__all__ = ["CHECKSUM_BYTE", "ENTRY", "INDEX_DTYPE", "PREFIX_BYTES", "encode", "is_message", "read_json"]
__all__ += ["message_bytes", "write_atomically"]

INDEX_DTYPE = np.dtype(
    [("partition", ">i4"), ("position", ">i8"), ("size", ">i4"), ("tag_hash", ">i4"), ("received_ms", ">i8")]
)
ENTRY = struct.Struct(">iqiiq")
_PREFIX = struct.Struct(">c4sc9sc5sc5sc4s")
PREFIX_BYTES = _PREFIX.size
_PREFIX_AFTER_LENGTH = PREFIX_BYTES - 5
CHECKSUM_BYTE = 16
"""Position of the checksum's first varint byte in a message's bytes."""


def encode(payload: bytes, flag: int, message_id: int) -> bytes:
    """A message's bytes in the data file."""
    length = len(payload)
    prefix = _PREFIX.pack(
        b"\x22",  # GetMessageResponseB2C.messages
        _padded(_PREFIX_AFTER_LENGTH + length, 4),
        b"\x08",  # messageId
        _padded(message_id, 9),
        b"\x10",  # checkSum
        _padded(checksum(payload), 5),
        b"\x20",  # flag
        _padded(flag & 0xFFFFFFFF, 5),
        b"\x1a",  # payLoadData
        _padded(length, 4),
    )
    return prefix + payload


def message_bytes(prefix: bytes) -> int:
    """How many bytes the message that begins so has in the data file, if it is one."""
    return 5 + sum((byte & 0x7F) << 7 * n for n, byte in enumerate(prefix[1:5]))


def is_message(data: bytes) -> bool:
    """Whether these are the bytes of one message, whole and as it was written."""
    if len(data) < PREFIX_BYTES or data[:1] != b"\x22" or message_bytes(data) != len(data):
        return False
    return data[CHECKSUM_BYTE : CHECKSUM_BYTE + 5] == _padded(checksum(data[PREFIX_BYTES:]), 5)


def _padded(value: int, width: int) -> bytes:
    """`value` as a varint of exactly `width` bytes."""
    out = bytearray(width)
    for n in range(width - 1):
        out[n] = value & 0x7F | 0x80
        value >>= 7
    out[width - 1] = value & 0x7F
    return bytes(out)


def write_atomically(path: Path, data: bytes) -> None:
    """Replace `path` by `data`: every reader sees the old or the new content, also after a power cut."""
    new = path.with_name(path.name + ".new")
    with new.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)


def read_json(path: Path, remedy: str) -> Any:
    """What such a file holds; None if there is none. ConfigurationError with the `remedy` if it is damaged."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ConfigurationError(f"{path} is damaged, as it is no JSON. {remedy}") from error
