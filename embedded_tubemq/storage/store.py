"""One store: an append-only index file and data file that all partitions of a (topic, store id) share.

A record is written before its index entry, and both before the message is acknowledged. So acknowledged messages
survive the death of the process. The state file holds the store's first served offset, so offsets survive expiry too.
"""

from __future__ import annotations

import json
import mmap
import os
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from embedded_tubemq.storage.files import recover, write_atomically, write_fully
from embedded_tubemq.storage.packs import Pack
from embedded_tubemq.storage.records import (
    HEADER_BYTES,
    INDEX_DTYPE,
    WIRE_PREFIX_BYTES,
    Record,
    decode_record,
    encode_index_entry,
    encode_record,
)
from tubeclient.keys import INDEX_ENTRY_BYTES, StoreBounds

__all__ = ["Appended", "NewMessage", "Store"]

_ID_FACTOR = 0x9E37_79B9_7F4A_7C15
_ID_MASK = (1 << 63) - 1
_ID_INVERSE = pow(_ID_FACTOR, -1, _ID_MASK + 1)
_LOAD_BATCH = 2000


class NewMessage(NamedTuple):
    """A message to append."""

    partition_id: int
    payload: bytes
    flag: int = 0
    tag_hash: int = -1
    sender_ip: int = 0


class Appended(NamedTuple):
    """Where a message was written."""

    message_id: int
    index_offset: int  # bytes


class Store:
    """Files of one store in `folder`; created if missing, repaired if they end in an incomplete record.

    Offsets are bytes of the index file, multiples of 28; positions are bytes of the data file. Not thread-safe. The
    files of a store that was not closed are closed when the object is garbage-collected.
    """

    def __init__(self, folder: Path, now_ms: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._state_path = folder / "state.json"
        self._index_fd = os.open(folder / "index", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._data_fd = os.open(folder / "data", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._close_files = weakref.finalize(self, _close_all, self._index_fd, self._data_fd)
        self._close_files.atexit = False  # a thread may still use them then, and the process closes them anyway
        recovered = recover(self._index_fd, self._data_fd)
        self.max_offset = recovered.index_end
        self.data_max = recovered.data_end
        state = json.loads(self._state_path.read_text()) if self._state_path.exists() else {}
        self.min_offset = min(state.get("minOffset", 0), self.max_offset)
        self.data_min = min(state.get("dataMin", 0), self.data_max)
        """Position of the oldest record that is still served; the index may begin before or after it."""
        self._map: mmap.mmap | None = None
        # Message ids are unique within a store, even after a lost tail, and not in order, as in TubeMQ: a counter times
        # an odd number. The counter starts at the time, or after the last id if the clock went back.
        last = self._decoded(self.entries(max(0, self.max_offset - INDEX_ENTRY_BYTES), self.max_offset))
        self._last_id = max([now_ms << 20, *(record.message_id * _ID_INVERSE & _ID_MASK for record in last)])

    @property
    def bounds(self) -> StoreBounds:
        """The store's first readable offset and its end."""
        return StoreBounds(self.min_offset, self.max_offset)

    def append(self, message: NewMessage, now_ms: int) -> Appended:
        """Append one message; it is in the files when this returns."""
        return self.append_all([message], now_ms)[0]

    def append_all(self, messages: Iterable[NewMessage], now_ms: int) -> list[Appended]:
        """Append messages in order, many with one write."""
        appended: list[Appended] = []
        data: list[bytes] = []
        index: list[bytes] = []
        offset, position = self.max_offset, self.data_max
        for message in messages:
            self._last_id += 1
            message_id = self._last_id * _ID_FACTOR & _ID_MASK
            record = Record(
                message.partition_id,
                offset,
                now_ms,
                message.sender_ip,
                message.tag_hash,
                message_id,
                message.flag,
                message.payload,
            )
            data.append(encode_record(record))
            index.append(encode_index_entry(record, position))
            appended.append(Appended(message_id, offset))
            offset += INDEX_ENTRY_BYTES
            position += record.size
            if len(data) == _LOAD_BATCH:
                self._write(data, index, offset, position)
                data, index = [], []
        if data:
            self._write(data, index, offset, position)
        return appended

    def entries(self, start: int, end: int) -> NDArray[Any]:
        """Existing index entries of [start, end) (`INDEX_DTYPE`)."""
        end = min(end, self.max_offset)
        if start >= end:
            return np.empty(0, INDEX_DTYPE)
        return np.frombuffer(os.pread(self._index_fd, end - start, start), INDEX_DTYPE)

    def wire_bytes(self, pack: Pack) -> bytes:
        """The chosen messages in wire form, joined."""
        if pack.empty:
            return b""
        data = self._mapped(int(pack.ends[-1]))
        return b"".join(map(data.__getitem__, map(slice, pack.starts.tolist(), pack.ends.tolist())))

    def records(self, start: int, end: int) -> list[Record]:
        """The existing records of [start, end), decoded one by one."""
        entries = self.entries(start, end)
        return self._decoded(entries[entries["position"] >= self.data_min])

    def expire(self, up_to: int) -> None:
        """Drop index entries and records below the offset `up_to`, at most up to the end.

        TubeMQ's brokers drop full segments of the two files, each by its own age (source:
        MsgFileStore.runClearupPolicy). So either file may begin before the other.
        """
        self.expire_index(up_to)
        self.expire_data(up_to)

    def expire_index(self, up_to: int) -> None:
        """Drop the index entries below `up_to`, and keep their records: nobody finds these any more."""
        self.min_offset = max(self.min_offset, self._bounded(up_to))
        self._write_state()

    def expire_data(self, up_to: int) -> None:
        """Drop the records below the offset `up_to`, and keep their index entries."""
        self.data_min = max(self.data_min, self._position(self._bounded(up_to)))
        self._write_state()

    def truncate(self, end: int) -> None:
        """Lose everything from the offset `end` on, as a broker that dies before a flush does.

        Later messages get these offsets again.
        """
        end = max(self.min_offset, end - end % INDEX_ENTRY_BYTES)
        if end >= self.max_offset:
            return
        position = self._position(end)
        os.ftruncate(self._index_fd, end)
        os.ftruncate(self._data_fd, position)
        self.max_offset, self.data_max = end, position
        if self.data_min > position:
            self.data_min = position
            self._write_state()

    def damage(self, offset: int, *, byte: int = -1) -> None:
        """Change one byte of the payload of the message at an offset, as a failing disk does."""
        entry = self.entries(offset, offset + INDEX_ENTRY_BYTES)[0]
        payload = range(HEADER_BYTES + WIRE_PREFIX_BYTES, int(entry["size"]))
        with (self._state_path.parent / "data").open("r+b") as file:
            file.seek(int(entry["position"]) + payload[byte])
            old = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([old ^ 0xFF]))

    def close(self) -> None:
        """Close the files; the store cannot be used afterwards."""
        self._unmap()
        self._close_files()

    def _bounded(self, offset: int) -> int:
        return min(offset - offset % INDEX_ENTRY_BYTES, self.max_offset)

    def _write_state(self) -> None:
        state = {"minOffset": self.min_offset, "dataMin": self.data_min}
        write_atomically(self._state_path, json.dumps(state).encode())

    def _decoded(self, entries: NDArray[Any]) -> list[Record]:
        raw = (os.pread(self._data_fd, int(entry["size"]), int(entry["position"])) for entry in entries)
        return [record for record in map(decode_record, raw) if record is not None]

    def _position(self, offset: int) -> int:
        """Data file position of the record at an offset, or of the next record."""
        entries = self.entries(offset, offset + INDEX_ENTRY_BYTES)
        return int(entries["position"][0]) if len(entries) else self.data_max

    def _write(self, data: list[bytes], index: list[bytes], offset: int, position: int) -> None:
        try:
            write_fully(self._data_fd, b"".join(data))
            write_fully(self._index_fd, b"".join(index))
        except OSError:  # a full disk takes a part; the next messages must not come after it
            os.ftruncate(self._index_fd, self.max_offset)
            os.ftruncate(self._data_fd, self.data_max)
            raise
        self.max_offset, self.data_max = offset, position

    def _mapped(self, end: int) -> mmap.mmap:
        """The data file in memory, at least up to `end`."""
        if self._map is None or len(self._map) < end:
            self._unmap()
            self._map = mmap.mmap(self._data_fd, self.data_max, access=mmap.ACCESS_READ)
        return self._map

    def _unmap(self) -> None:
        if self._map is not None:
            self._map.close()
            self._map = None


def _close_all(*fds: int) -> None:
    for fd in fds:
        os.close(fd)
