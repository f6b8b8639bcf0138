"""How a store's files are written, and what they prove after a crash.

Messages are written before their index entries. So after the death of the process the data file may end in messages
that nobody was told of, and nothing else is wrong. After a power cut any part of either file may be missing, or zeros.

An index entry proves itself if it has a time and begins where the one before it ends, a message by its length and
checksum. The index is cut before its first entry that does not, the data after its last message that does. Offsets
never go back: those that were given out for messages that are lost become holes, entries of no partition and without
bytes.
"""

from __future__ import annotations

import json
import logging
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tubeclient.errors import ConfigurationError
from tubeclient.wire.payload import checksum

_LOG = logging.getLogger(__name__)

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


def _message_at(data_fd: int, position: int) -> bytes:
    """The bytes of the message that begins there; b"" if it is not whole, and as it was written."""
    prefix = os.pread(data_fd, PREFIX_BYTES, position)
    size = 5 + sum((byte & 0x7F) << 7 * n for n, byte in enumerate(prefix[1:5]))
    data = os.pread(data_fd, size, position)
    is_whole = len(data) == size >= PREFIX_BYTES and data[:1] == b"\x22"
    check = data[CHECKSUM_BYTE : CHECKSUM_BYTE + 5]
    return data if is_whole and check == _padded(checksum(data[PREFIX_BYTES:]), 5) else b""


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
        raise ConfigurationError(f"{path} is damaged: it is not JSON. {remedy}") from error


_NOBODY = -1


def recover(index: Path, data: Path, given_out: int) -> int:
    """Mend both files. Returns how many entries from the first one on may be without a message: all, if none is left.
    Offsets below `given_out` were surely given out."""
    index.touch()
    data.touch()
    written, data_size = index.read_bytes(), data.stat().st_size
    entries = _chained(written)
    ends = entries["position"].astype(np.int64) + entries["size"]
    whole = int(ends.searchsorted(data_size, "right"))
    with data.open("rb") as file:
        while whole and not _proves(file.fileno(), entries[whole - 1]):
            whole -= 1
        count, end = len(entries), int(ends[-1]) if len(entries) else 0
        if not count or count * ENTRY.size != len(written):  # else what is behind was not acknowledged
            while message := _message_at(file.fileno(), end):
                count, end = count + 1, end + len(message)
    count = max(count, given_out // ENTRY.size)
    data_end = int(ends[whole - 1]) if whole else 0
    holes = ENTRY.pack(_NOBODY, data_end, 0, -1, 0) * (count - whole)
    mended = written[: whole * ENTRY.size] + holes
    if mended != written:
        write_atomically(index, mended)
        _LOG.warning("%s repaired: %d -> %d bytes, %d messages lost", index, len(written), len(mended), count - whole)
    if data_end != data_size:
        os.truncate(data, data_end)
        _LOG.warning("%s repaired: %d -> %d bytes", data, data_size, data_end)
    return 0 if whole else len(mended)


def _proves(data_fd: int, entry: Any) -> bool:
    """Whether an entry's message is there; a hole proves nothing."""
    return bool(len(_message_at(data_fd, int(entry["position"])) or b"?") == entry["size"])


def _chained(written: bytes) -> NDArray[Any]:
    """The entries up to the first one that does not begin where the one before it ends."""
    entries = np.frombuffer(written[: len(written) - len(written) % ENTRY.size], INDEX_DTYPE)
    ends = entries["position"].astype(np.int64) + entries["size"]
    fits = (entries["position"] == np.append(0, ends)[:-1]) & (
        (entries["size"] >= PREFIX_BYTES) & (entries["received_ms"] > 0)
        | (entries["size"] == 0) & (entries["partition"] == _NOBODY)
    )
    return entries if fits.all() else entries[: fits.argmin()]
