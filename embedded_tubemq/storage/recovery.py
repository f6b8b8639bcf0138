"""What a store's files prove after a crash.

Messages are written before their index entries. So after the death of the process the data file may end in messages
that nobody was told of, and nothing else is wrong. After a power cut any part of either file may be missing, or zeros.

An index entry proves itself if it has a time and begins where the one before it ends, a message by its length and
checksum. The index is cut before its first entry that does not, the data after its last message that does. Offsets
never go back: those that were given out for messages that are lost become holes, entries of no partition and without
bytes.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedded_tubemq.storage.layout import (
    ENTRY,
    INDEX_DTYPE,
    PREFIX_BYTES,
    is_message,
    message_bytes,
    write_atomically,
)

__all__ = ["recover"]

_LOG = logging.getLogger(__name__)
_NOBODY = -1


def recover(index: Path, data: Path, given_out: int) -> int:
    """Mend both files. Returns how many entries from the first one on may be without a message: all, if none is left.
    Offsets below `given_out` were surely given out."""
    index.touch()
    data.touch()
    written, data_size = index.read_bytes(), data.stat().st_size
    entries = _chained(written)
    ends = entries["position"].astype(np.int64) + entries["size"]
    kept = int(ends.searchsorted(data_size, "right"))
    with data.open("rb") as file:
        while kept and not is_message(_at(file.fileno(), entries[kept - 1])):
            kept -= 1
        count = len(entries)
        if not count or count * ENTRY.size != len(written):  # else what is behind was not acknowledged
            count += _messages_behind(file.fileno(), int(ends[-1]) if count else 0)
    count = max(count, given_out // ENTRY.size)
    data_end = int(ends[kept - 1]) if kept else 0
    holes = ENTRY.pack(_NOBODY, data_end, 0, -1, 0) * (count - kept)
    mended = written[: kept * ENTRY.size] + holes
    if mended != written:
        write_atomically(index, mended)
        _LOG.warning("%s repaired: %d -> %d bytes, %d messages lost", index, len(written), len(mended), count - kept)
    if data_end != data_size:
        os.truncate(data, data_end)
        _LOG.warning("%s repaired: %d -> %d bytes", data, data_size, data_end)
    return 0 if kept else len(mended)


def _chained(written: bytes) -> NDArray[Any]:
    """The entries up to the first one that does not begin where the one before it ends."""
    entries = np.frombuffer(written[: len(written) - len(written) % ENTRY.size], INDEX_DTYPE)
    ends = entries["position"].astype(np.int64) + entries["size"]
    fits = (entries["position"] == np.append(0, ends)[:-1]) & (
        (entries["size"] >= PREFIX_BYTES) & (entries["received_ms"] > 0)
        | (entries["size"] == 0) & (entries["partition"] == _NOBODY)
    )
    return entries if fits.all() else entries[: fits.argmin()]


def _at(data_fd: int, entry: Any) -> bytes:
    return os.pread(data_fd, int(entry["size"]), int(entry["position"]))


def _messages_behind(data_fd: int, position: int) -> int:
    count = 0
    while is_message(found := os.pread(data_fd, message_bytes(os.pread(data_fd, PREFIX_BYTES, position)), position)):
        position += len(found)
        count += 1
    return count
