"""Who reads a partition for a group, and how far: owners with their leases, committed positions, and what is in flight.

Each step follows TubeMQ (source: DefaultOffsetManager), including what clients must cope with: an automatic commit
before a read, positions past the end that snap back, positions before the start that move forward and are committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from embedded_tubemq.common.refusal import Code, Refusal
from tubeclient.keys import INDEX_ENTRY_BYTES, StoreBounds

__all__ = ["Cursor", "GroupOffsets", "Ownership", "Reader"]

READ_NORMAL = 0
READ_FROM_MAX_ALWAYS = 2
NO_DATA_POSITION = -2
"""TBaseConstants.META_VALUE_UNDEFINED; TubeMQ computes lags from it as if it were a position."""


class Cursor(NamedTuple):
    """Key of a position: one group on one partition of one broker."""

    group: str
    topic: str
    partition_id: int

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition_id} in group {self.group}"


@dataclass(slots=True)
class Reader:
    """The owner of a partition, as it registered."""

    client_id: str
    tag_hashes: tuple[int, ...] | None
    deadline_ms: int
    data_position: int = NO_DATA_POSITION
    """Data file position after the last fetch that read any data."""


class Ownership:
    """The owners of one broker's partitions. The id identifies a client: two connections with one id are the same
    client."""

    def __init__(self, lease_ms: int) -> None:
        self.lease_ms = lease_ms
        self._readers: dict[Cursor, Reader] = {}

    def take(self, cursor: Cursor, reader: Reader, now_ms: int) -> None:
        """Make `reader` the owner. Another one is a 410; with an expired lease it is removed for the next attempt."""
        owner = self._readers.get(cursor)
        if owner is not None and owner.client_id != reader.client_id:
            if now_ms >= owner.deadline_ms:
                del self._readers[cursor]
                raise Refusal(Code.PARTITION_OCCUPIED, f"the lease of {owner.client_id} has just expired; try again")
            raise Refusal(Code.PARTITION_OCCUPIED, f"{owner.client_id} reads {cursor}")
        self.extend(reader, now_ms)
        self._readers[cursor] = reader

    def owner(self, cursor: Cursor) -> Reader | None:
        return self._readers.get(cursor)

    def owned_by(self, cursor: Cursor, client_id: str) -> Reader:
        """The owner, who must be `client_id`: 411 if nobody is registered, 412 if another client is."""
        owner = self._readers.get(cursor)
        if owner is None:
            raise Refusal(Code.HB_NO_NODE, f"{client_id} is not registered for {cursor}")
        if owner.client_id != client_id:
            raise Refusal(Code.DUPLICATE_PARTITION, f"{owner.client_id} reads {cursor}, not {client_id}")
        return owner

    def extend(self, reader: Reader, now_ms: int) -> None:
        reader.deadline_ms = now_ms + self.lease_ms

    def release(self, cursor: Cursor) -> None:
        self._readers.pop(cursor, None)

    def drop(self, is_gone: Callable[[Cursor, Reader], bool]) -> list[Cursor]:
        """Free the partitions of those who are gone; returns them."""
        gone = [cursor for cursor, reader in self._readers.items() if is_gone(cursor, reader)]
        for cursor in gone:
            del self._readers[cursor]
        return gone


class GroupOffsets:
    """All positions of one broker. `changed` becomes True when a committed position moves; the user resets it."""

    def __init__(self) -> None:
        self._committed: dict[Cursor, int] = {}
        self._in_flight: dict[Cursor, int] = {}
        self.changed = False

    def committed(self, cursor: Cursor) -> int | None:
        """The committed position; None if the group never had one."""
        return self._committed.get(cursor)

    def in_flight(self, cursor: Cursor) -> int:
        """Bytes of the index fetched beyond the committed position."""
        return self._in_flight.get(cursor, 0)

    def cursors(self) -> Iterator[Cursor]:
        return iter(list(self._committed))

    def register(self, cursor: Cursor, bounds: StoreBounds, read_status: int, wanted: int) -> int:
        """A reader starts or seeks; `wanted` < 0 keeps the stored position. Returns the position it starts from."""
        self._in_flight.pop(cursor, None)
        if cursor not in self._committed:
            self._set(cursor, bounds.min_offset if read_status == READ_NORMAL else bounds.max_offset)
        if read_status == READ_FROM_MAX_ALWAYS:
            self._set(cursor, bounds.max_offset)
        elif wanted >= 0:
            self._set(cursor, _clamp(wanted, bounds))
        return self._committed[cursor]

    def begin_read(self, cursor: Cursor, bounds: StoreBounds, *, manual: bool, last_consumed: bool) -> tuple[int, bool]:
        """Where the next read starts, and whether there is anything to read."""
        if manual:
            position = self._committed.get(cursor, 0) + self.in_flight(cursor)
        elif last_consumed:
            position = self.commit(cursor, consumed=True)
        else:
            position = self._committed.get(cursor, 0)
        if position > bounds.max_offset:
            self._set_in_flight(cursor, bounds.max_offset - position)
            if not manual:
                position = self.commit(cursor, consumed=True)
            return position, False
        if position == bounds.max_offset:
            return position, False
        if position < bounds.min_offset:
            self._set_in_flight(cursor, bounds.min_offset - position)
            position = self.commit(cursor, consumed=True)
        return position, True

    def end_read(self, cursor: Cursor, index_bytes: int, *, manual: bool, empty: bool) -> None:
        """End a read of `index_bytes`. Without messages there is nothing to confirm, so it is committed at once."""
        if not index_bytes:
            return
        if manual:
            self._set_in_flight(cursor, self.in_flight(cursor) + index_bytes)
            return
        self._set_in_flight(cursor, index_bytes)
        if empty:
            self.commit(cursor, consumed=True)

    def commit(self, cursor: Cursor, *, consumed: bool) -> int:
        """Move the position past what is in flight, or roll it back; returns the committed position."""
        delta = self._in_flight.pop(cursor, 0)
        if consumed and delta:
            self._set(cursor, self._committed.get(cursor, 0) + delta)
        return self._committed.get(cursor, 0)

    def commit_all(self) -> None:
        for cursor in list(self._in_flight):
            self.commit(cursor, consumed=True)

    def reset(self, cursor: Cursor, offset: int, bounds: StoreBounds) -> int:
        """Set a position from outside, clamped; returns the former one (0 if there was none)."""
        self._in_flight.pop(cursor, None)
        former = self._committed.get(cursor, 0)
        self._set(cursor, _clamp(offset, bounds))
        return former

    def dump(self) -> list[list[str | int]]:
        """The committed positions in JSON form: [group, topic, partition id, offset] each."""
        return [[*cursor, offset] for cursor, offset in sorted(self._committed.items())]

    @classmethod
    def load(cls, rows: list[list[str | int]]) -> GroupOffsets:
        offsets = cls()
        for group, topic, partition_id, offset in rows:
            offsets._committed[Cursor(str(group), str(topic), int(partition_id))] = int(offset)
        return offsets

    def _set(self, cursor: Cursor, offset: int) -> None:
        offset -= offset % INDEX_ENTRY_BYTES
        if self._committed.get(cursor) != offset:
            self._committed[cursor] = offset
            self.changed = True

    def _set_in_flight(self, cursor: Cursor, index_bytes: int) -> None:
        self._in_flight[cursor] = index_bytes - index_bytes % INDEX_ENTRY_BYTES


def _clamp(offset: int, bounds: StoreBounds) -> int:
    return max(bounds.min_offset, min(offset, bounds.max_offset))
