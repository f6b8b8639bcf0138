"""Small files that are replaced as a whole, writes to those that grow, and repair after the process died during one.

A record without an index entry is indexed again. Incomplete data after that is cut off. Neither was acknowledged,
unless the disk damaged the last records.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import NamedTuple

from embedded_tubemq.storage.records import (
    HEADER_BYTES,
    INDEX_ENTRY,
    WIRE_PREFIX_BYTES,
    decode_record,
    encode_index_entry,
)
from tubeclient.keys import INDEX_ENTRY_BYTES

__all__ = ["Recovered", "recover", "write_atomically", "write_fully"]

_LOG = logging.getLogger(__name__)


def write_atomically(path: Path, data: bytes) -> None:
    """Replace `path` by `data`: every reader sees the old or the new content, also after a crash."""
    new = path.with_name(path.name + ".new")
    new.write_bytes(data)
    os.replace(new, path)


def write_fully(fd: int, data: bytes) -> None:
    """Write all of `data`: a file system that is nearly full takes a part of it first. OSError if there is no room."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class Recovered(NamedTuple):
    """The new ends of both files, in bytes."""

    index_end: int
    data_end: int


def recover(index_fd: int, data_fd: int) -> Recovered:
    """Repair the files and return their ends. Only the end is checked: earlier bytes were written before it."""
    index_size, data_size = os.fstat(index_fd).st_size, os.fstat(data_fd).st_size
    index_end = index_size - index_size % INDEX_ENTRY_BYTES
    data_end = 0
    while index_end:
        last = _end_of_entry(index_fd, data_fd, index_end - INDEX_ENTRY_BYTES, data_size)
        if last is not None:
            data_end = last
            break
        index_end -= INDEX_ENTRY_BYTES
    if index_end != index_size:
        os.ftruncate(index_fd, index_end)
    index_end, data_end = _index_again(index_fd, data_fd, index_end, data_end, data_size)
    if data_end != data_size:
        os.ftruncate(data_fd, data_end)
    if (index_end, data_end) != (index_size, data_size):
        _LOG.warning(
            "store repaired: index %d -> %d bytes, data %d -> %d bytes", index_size, index_end, data_size, data_end
        )
    return Recovered(index_end, data_end)


def _end_of_entry(index_fd: int, data_fd: int, offset: int, data_size: int) -> int | None:
    """Where the record of the entry at `offset` ends; None if entry and record do not match."""
    _, position, size, _, _ = INDEX_ENTRY.unpack(os.pread(index_fd, INDEX_ENTRY_BYTES, offset))
    # A damaged entry may have any size, so check that it fits before reading.
    if position < 0 or size < HEADER_BYTES + WIRE_PREFIX_BYTES or position + size > data_size:
        return None
    record = decode_record(os.pread(data_fd, size, position))
    if record is None or record.index_offset != offset or record.size != size:
        return None
    return int(position + size)


def _index_again(index_fd: int, data_fd: int, index_end: int, data_end: int, data_size: int) -> tuple[int, int]:
    """Write the entries of complete records after `data_end`; returns the new ends."""
    if data_end == data_size:
        return index_end, data_end
    tail = os.pread(data_fd, data_size - data_end, data_end)
    start = 0
    while (record := decode_record(tail, start)) is not None and record.index_offset == index_end:
        write_fully(index_fd, encode_index_entry(record, data_end + start))
        index_end += INDEX_ENTRY_BYTES
        start += record.size
    return index_end, data_end + start
