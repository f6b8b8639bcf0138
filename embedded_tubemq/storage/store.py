"""Stores: an append-only index file and data file each, which all partitions of a (topic, store id) share.

The data file has the messages as they go over the wire: each is a field `messages` of a GetMessageResponseB2C, payload
last, so that an answer to a fetch is slices of the file. Lengths and numbers before the payload are varints padded to
a fixed width, which protobuf readers must accept; so what comes before a payload always has 32 bytes. An index entry
has 28: partition id, position in the data file, size, tag hash, time of receipt in ms; big-endian.

A message is written before its index entry, and both before it is acknowledged. So acknowledged messages survive the
death of the process. The state file holds where the store begins. What a power cut leaves is seen to in `layout`.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import weakref
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from embedded_tubemq.common.catalogue import Catalogue
from embedded_tubemq.common.refusal import Code, Refusal
from embedded_tubemq.storage.layout import (
    ENTRY,
    INDEX_DTYPE,
    PREFIX_BYTES,
    encode,
    read_json,
    recover,
    write_atomically,
)
from tubeclient.errors import ConfigurationError
from tubeclient.keys import INDEX_ENTRY_BYTES, MAX_STORE_PARTITIONS, StoreBounds

__all__ = ["Appended", "NewMessage", "Pack", "Store", "StoreDirectory", "choose_pack"]

_LOG = logging.getLogger(__name__)

_TUBEMQ_HEADER_BYTES = 52
FIRST_FETCH_BYTES = 327_680
LATER_FETCH_BYTES = 524_288
"""How many bytes of TubeMQ's records a fetch may have, the first of a registration and all others."""

_ID_FACTOR = 0x9E37_79B9_7F4A_7C15
_ID_MASK = (1 << 63) - 1
_NOTHING = np.empty(0, np.int64)


class NewMessage(NamedTuple):
    """A message to append."""

    partition_id: int
    payload: bytes
    flag: int = 0
    tag_hash: int = -1


class Appended(NamedTuple):
    """Where a message was written."""

    message_id: int
    index_offset: int  # bytes


class Pack(NamedTuple):
    """The messages of a fetch: where they start and end in the data file, and how many index entries were read."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    entries_read: int
    data_end: int | None  # data file position after the last entry that has data; None without one

    @property
    def empty(self) -> bool:
        return not len(self.starts)


class Store:
    """Files of one store in `folder`; created if missing, repaired if they end in an incomplete message.

    Offsets are bytes of the index file, multiples of 28; positions are bytes of the data file. Not thread-safe. The
    files of a store that was not closed are closed when the object is garbage-collected.
    """

    def __init__(self, folder: Path, now_ms: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._state_path = folder / "state.json"
        self.min_offset, self.data_min = self._read_state()
        """`data_min`: position of the oldest message that is still served; the index may begin before it."""
        self.min_offset = max(self.min_offset, recover(folder / "index", folder / "data", self.min_offset))
        self._index_fd = os.open(folder / "index", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._data_fd = os.open(folder / "data", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self.close = weakref.finalize(self, _close_all, self._index_fd, self._data_fd)
        self.close.atexit = False  # a thread may still use them then, and the process closes them anyway
        self.max_offset, self.data_max = os.fstat(self._index_fd).st_size, os.fstat(self._data_fd).st_size
        self.data_min = min(self.data_min, self.data_max)
        # Message ids are unique within a store and not in order, as in TubeMQ: a counter times an odd number. It starts
        # at the time, and goes on where a store has had more messages than there was time.
        self._last_id = (now_ms << 20) + self.max_offset // INDEX_ENTRY_BYTES

    @property
    def bounds(self) -> StoreBounds:
        return StoreBounds(self.min_offset, self.max_offset)

    def append_all(self, messages: Iterable[NewMessage], now_ms: int) -> list[Appended]:
        """Append messages in order, with one write; they are in the files when this returns."""
        appended: list[Appended] = []
        data: list[bytes] = []
        index: list[bytes] = []
        offset, position = self.max_offset, self.data_max
        for message in messages:
            self._last_id += 1
            message_id = self._last_id * _ID_FACTOR & _ID_MASK
            wire = encode(message.payload, message.flag, message_id)
            data.append(wire)
            index.append(ENTRY.pack(message.partition_id, position, len(wire), message.tag_hash, now_ms))
            appended.append(Appended(message_id, offset))
            offset += INDEX_ENTRY_BYTES
            position += len(wire)
        self._write(b"".join(data), b"".join(index))
        return appended

    def append_sends(self, sends: Any, numbers: Sequence[int], now_ms: int, *, require_auth: bool) -> list[bytes]:
        """The same for those of the core's `Sends`; returns the frames that answer them."""
        ends = self._last_id, self.max_offset, self.data_max
        data, index, answers = sends.stored(numbers, ends, now_ms, require_auth)
        self._write(data, index)
        self._last_id += len(numbers)
        return cast(list[bytes], answers)

    def _write(self, data: bytes, index: bytes) -> None:
        try:
            _write_fully(self._data_fd, data)
            _write_fully(self._index_fd, index)
        except OSError:  # a full disk takes a part; the next messages must not come after it
            os.ftruncate(self._index_fd, self.max_offset)
            os.ftruncate(self._data_fd, self.data_max)
            raise
        self.max_offset += len(index)
        self.data_max += len(data)

    def entries(self, start: int, end: int) -> NDArray[Any]:
        end = min(end, self.max_offset)
        if start >= end:
            return np.empty(0, INDEX_DTYPE)
        return np.frombuffer(os.pread(self._index_fd, end - start, start), INDEX_DTYPE)

    def wire_bytes(self, pack: Pack) -> bytes:
        if pack.empty:
            return b""
        starts, sizes = pack.starts.tolist(), (pack.ends - pack.starts).tolist()
        if (pack.starts[1:] == pack.ends[:-1]).all():
            starts, sizes = starts[:1], [sum(sizes)]
        return b"".join(os.pread(self._data_fd, size, start) for start, size in zip(starts, sizes, strict=True))

    def expire(self, up_to: int) -> None:
        """Drop index entries and messages below the offset `up_to`, at most up to the end."""
        self.min_offset = max(self.min_offset, self._bounded(up_to))
        self.expire_data(up_to)

    def expire_data(self, up_to: int) -> None:
        """Drop the messages below the offset `up_to`, and keep their index entries: TubeMQ's brokers drop full segments
        of the two files, each by its own age (MsgFileStore.runClearupPolicy)."""
        self.data_min = max(self.data_min, self._position(self._bounded(up_to)))
        self._write_state()

    def truncate(self, end: int) -> None:
        """Lose everything from the offset `end` on, as a broker that dies before a flush does."""
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
        place = int(entry["position"]) + range(PREFIX_BYTES, int(entry["size"]))[byte]
        with (self._state_path.parent / "data").open("r+b") as file:
            file.seek(place)
            old = file.read(1)[0]
            file.seek(place)
            file.write(bytes([old ^ 0xFF]))

    def _read_state(self) -> tuple[int, int]:
        """`min_offset` and `data_min`. Without them, what had expired is served again."""
        try:
            state = read_json(self._state_path, "The store starts at its first message again") or {}
        except ConfigurationError as error:
            _LOG.warning("%s", error)
            state = {}
        return state.get("minOffset", 0), state.get("dataMin", 0)

    def _bounded(self, offset: int) -> int:
        return min(offset - offset % INDEX_ENTRY_BYTES, self.max_offset)

    def _write_state(self) -> None:
        state = {"minOffset": self.min_offset, "dataMin": self.data_min}
        write_atomically(self._state_path, json.dumps(state).encode())

    def _position(self, offset: int) -> int:
        """Data file position of the message at an offset, or of the next one."""
        entries = self.entries(offset, offset + INDEX_ENTRY_BYTES)
        return int(entries["position"][0]) if len(entries) else self.data_max


class StoreDirectory:
    """The stores of one broker below `folder`: one sub-folder per topic, and in it one per store id; each is opened on
    first use."""

    def __init__(self, folder: Path, catalogue: Catalogue, clock: Callable[[], int]) -> None:
        self._folder = folder
        self._catalogue = catalogue
        self._clock = clock
        self._open: dict[tuple[str, int], Store] = {}

    def of_partition(self, topic: str, partition_id: int) -> Store:
        """The store of a partition; 403 without the topic, 500 if the topic does not have the partition."""
        config = self._catalogue.topic(topic)
        if config is None:
            raise Refusal(Code.FORBIDDEN, f"topic {topic} does not exist on this broker")
        if not config.has_partition(partition_id):
            # TubeMQ's text: clients recognise a permanent refusal by it.
            raise Refusal(
                Code.INTERNAL_SERVER_ERROR,
                f"Wrong partition value {partition_id},valid partitions in (0,{config.partitions - 1})",
            )
        return self.get(topic, partition_id // MAX_STORE_PARTITIONS)

    def get(self, topic: str, store_id: int) -> Store:
        store = self._open.get((topic, store_id))
        if store is None:
            store = self._open[topic, store_id] = Store(self._folder / topic / str(store_id), self._clock())
        return store

    def append_all(self, topic: str, messages: Iterable[NewMessage], now_ms: int) -> list[Appended]:
        """Append messages of any partitions of a topic, with a write for each store; keeps the order within each."""
        all_messages = list(messages)
        by_store: dict[Store, list[NewMessage]] = {}
        for message in all_messages:
            by_store.setdefault(self.of_partition(topic, message.partition_id), []).append(message)
        done = {store: iter(store.append_all(part, now_ms)) for store, part in by_store.items()}
        return [next(done[self.of_partition(topic, message.partition_id)]) for message in all_messages]

    def existing(self, topic: str, store_id: int) -> Store | None:
        """The store if it was ever used."""
        if (topic, store_id) in self._open or (self._folder / topic / str(store_id)).is_dir():
            return self.get(topic, store_id)
        return None

    def delete_topic(self, topic: str) -> None:
        for name, store_id in [key for key in self._open if key[0] == topic]:
            self._open.pop((name, store_id)).close()
        shutil.rmtree(self._folder / topic, ignore_errors=True)

    def close(self) -> None:
        for store in self._open.values():
            store.close()
        self._open.clear()


def entry_budget(partitions: int, *, filtered: bool) -> int:
    """Index entries that one fetch may scan, by the store's number of partitions (source: MessageStore)."""
    budget = min(max(1000 * partitions, 8000), 13_500)
    return 3 * budget if filtered else budget


def choose_pack(
    entries: NDArray[Any], partition_id: int, tag_hashes: Sequence[int] | None, byte_limit: int, data_min: int = 0
) -> Pack:
    """Choose from index entries; `tag_hashes` None means no filter.

    The borders are TubeMQ's (source: MsgFileStore.getMessages): entries of one partition that pass the filter, in
    order, until their records reach a number of bytes, including the one that crosses it. Entries whose message lay
    before the position `data_min` have none any more; they are skipped silently.
    """
    count = len(entries)
    if not count or int(entries[count - 1]["position"]) < data_min:
        return Pack(_NOTHING, _NOTHING, count, None)
    # Compare in disk byte order: converting thousands of numbers takes several times as long.
    wanted = entries["partition"].view(np.int32) == np.array(partition_id, ">i4").view(np.int32)
    if int(entries[0]["position"]) < data_min:
        wanted &= entries["position"] >= data_min
    if tag_hashes is not None:
        wanted &= np.isin(entries["tag_hash"], np.asarray(tag_hashes, dtype=np.int64))
    rows = wanted.nonzero()[0]
    sizes = entries["size"][rows].astype(np.int64)
    # Count record sizes as TubeMQ does, so that packs hold as many messages as there.
    taken = int((sizes + (_TUBEMQ_HEADER_BYTES - PREFIX_BYTES)).cumsum().searchsorted(byte_limit)) + 1
    if taken <= len(rows):
        rows, sizes = rows[:taken], sizes[:taken]
        count = int(rows[-1]) + 1
    starts = entries["position"][rows].astype(np.int64)
    last = entries[count - 1]
    return Pack(starts, starts + sizes, count, int(last["position"]) + int(last["size"]))


def _write_fully(fd: int, data: bytes) -> None:
    """Write all of `data`: a file system that is nearly full takes a part of it first."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _close_all(*fds: int) -> None:
    for fd in fds:
        os.close(fd)
