"""Partition owners: one per group and partition, kept by a lease."""

from __future__ import annotations

from dataclasses import dataclass

from embedded_tubemq.broker.offsets import Cursor
from embedded_tubemq.common.codes import Code
from embedded_tubemq.common.peer import NOBODY, Peer
from embedded_tubemq.common.refusal import Refusal

__all__ = ["NO_DATA_POSITION", "Ownership", "Reader"]

NO_DATA_POSITION = -2
"""TBaseConstants.META_VALUE_UNDEFINED; TubeMQ computes lags from it as if it were a position."""


@dataclass(slots=True)
class Reader:
    """The owner of a partition, as it registered."""

    client_id: str
    tag_hashes: tuple[int, ...] | None
    priority: int
    deadline_ms: int
    peer: Peer = NOBODY
    data_position: int = NO_DATA_POSITION
    """Data file position after the last fetch that read any data."""


class Ownership:
    """The owners of one broker's partitions. The id identifies a client: two connections with one id are the same
    client."""

    def __init__(self, lease_ms: int) -> None:
        self.lease_ms = lease_ms
        self._readers: dict[Cursor, Reader] = {}

    def take(self, cursor: Cursor, reader: Reader, now_ms: int) -> None:
        """Make `reader` the owner.

        Another owner is a 410. An owner with an expired lease is removed, so that the next attempt succeeds.
        """
        owner = self._readers.get(cursor)
        if owner is not None and owner.client_id != reader.client_id:
            if now_ms >= owner.deadline_ms:
                del self._readers[cursor]
                raise Refusal(Code.PARTITION_OCCUPIED, f"the lease of {owner.client_id} has just expired; try again")
            raise Refusal(Code.PARTITION_OCCUPIED, f"{owner.client_id} reads {_readable(cursor)}")
        reader.deadline_ms = now_ms + self.lease_ms
        self._readers[cursor] = reader

    def owner(self, cursor: Cursor) -> Reader | None:
        return self._readers.get(cursor)

    def owned_by(self, cursor: Cursor, client_id: str) -> Reader:
        """The owner, who must be `client_id`: 411 if nobody is registered, 412 if another client is."""
        owner = self._readers.get(cursor)
        if owner is None:
            raise Refusal(Code.HB_NO_NODE, f"{client_id} is not registered for {_readable(cursor)}")
        if owner.client_id != client_id:
            raise Refusal(Code.DUPLICATE_PARTITION, f"{owner.client_id} reads {_readable(cursor)}, not {client_id}")
        return owner

    def extend(self, reader: Reader, now_ms: int) -> None:
        reader.deadline_ms = now_ms + self.lease_ms

    def release(self, cursor: Cursor) -> None:
        self._readers.pop(cursor, None)

    def release_topic(self, topic: str) -> list[Cursor]:
        gone = [cursor for cursor in self._readers if cursor.topic == topic]
        for cursor in gone:
            del self._readers[cursor]
        return gone

    def expire(self, now_ms: int) -> list[Cursor]:
        """Free the partitions of owners that were silent too long; returns them."""
        gone = [cursor for cursor, reader in self._readers.items() if now_ms >= reader.deadline_ms]
        for cursor in gone:
            del self._readers[cursor]
        return gone


def _readable(cursor: Cursor) -> str:
    return f"{cursor.topic}:{cursor.partition_id} in group {cursor.group}"
