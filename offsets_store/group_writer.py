"""Writes a group's rows: read the newest version, decide, commit, and repeat if another writer was faster."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from offsets_store.errors import CommitConflict
from offsets_store.progress import GroupKey, PartitionProgress
from offsets_store.rows import Row, Stamp, next_sequence
from offsets_store.storage import Conflict, Storage
from tubeclient.keys import PartitionKey

__all__ = ["TRIES", "GroupWriter", "TableAccess"]

# A lost commit means that another writer of the group committed in the few milliseconds since our read. The next read
# shows who. More than a few in a row mean that two runs compete.
TRIES = 8

_SKEW = timedelta(minutes=1)
"""Two machines' clocks differ by less."""


class TableAccess(NamedTuple):
    """What all writers of one table share."""

    storage: Storage
    lock: threading.Lock
    """Held while the storage is used."""
    clock_ms: Callable[[], int]
    client_version: str


class GroupWriter(ABC):
    """What all writers of one key's rows share. Subclasses choose the epoch and the rows."""

    _mark = ""
    """Appended to the client version in the rows."""

    def __init__(self, access: TableAccess, key: GroupKey, source_count: int) -> None:
        self._storage, self._lock, self._clock_ms, client_version = access
        self._client_version = client_version + self._mark
        self._key = key
        self._source_count = source_count

    @property
    def group(self) -> GroupKey:
        return self._key

    @abstractmethod
    def _epoch_over(self, found: Sequence[Row]) -> int:
        """The epoch for the next commit, given the group's rows `found`. Raises if this writer may not commit."""

    def _trying(self, sequence: int) -> None:  # noqa: B027 - most need not know
        """Called before each try of the commit `sequence`."""

    def _lost(self, sequence: int) -> None:  # noqa: B027 - most need not know
        """Called when the try lost: another writer used that sequence."""

    def _commit(self, make_rows: Callable[[list[Row], Stamp], list[Row] | None], as_of: datetime | None = None) -> bool:
        """Replace the key's rows by the result of `make_rows`; returns False, without a commit, if that is None.
        `as_of` (UTC, default now) goes into the rows."""
        reason = ""
        with self._lock:
            for _ in range(TRIES):
                found = self._storage.rows(self._key.consumer_group)
                epoch = self._epoch_over(found)
                sequence = next_sequence(found, self._storage.transaction_version(self._key))
                updated_at = as_of or self._now()
                stamp = Stamp(self._source_count, epoch, sequence, updated_at, self._client_version)
                rows = make_rows([row for row in found if row.belongs_to(self._key)], stamp)
                if rows is None:
                    return False
                self._trying(sequence)
                try:
                    self._storage.replace(self._key, rows, sequence)
                except Conflict as conflict:
                    self._lost(sequence)
                    reason = str(conflict)
                else:
                    return True
        raise CommitConflict(
            f"{self._key}: {TRIES} commits in a row lost against another writer of the group ({reason});"
            " stop the other query of this group, or give one of the two a consumerGroup of its own"
        )

    def _is_newer(self, row: Row, progress: PartitionProgress, as_of: datetime) -> bool:
        """Whether `row` has later news of a partition than `progress`, which held at `as_of`.

        A row whose time is far from here yet was written before the clock was put back. Then offsets tell, unless
        `progress` goes back from that row.
        """
        if as_of < row.updated_at > self._now() + _SKEW:
            back_from = progress.start_offset
            goes_back = back_from is not None and back_from >= row.next_offset
            return row.next_offset > progress.next_offset and not goes_back
        return (row.updated_at, row.next_offset) > (as_of, progress.next_offset)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock_ms() / 1000, UTC)

    def _wanted(self, progress: Sequence[PartitionProgress]) -> dict[PartitionKey, int]:
        """Partition to next offset. ValueError for a partition that is named twice or is not the key's."""
        wanted = {p.partition: p.next_offset for p in progress}
        if len(wanted) != len(progress):
            raise ValueError("a partition is named twice in the recorded progress")
        self._check_topics(wanted)
        return wanted

    def _check_topics(self, partitions: Iterable[PartitionKey]) -> None:
        strange = sorted(topic for topic in {p.topic for p in partitions} if not self._key.covers(topic))
        if strange:
            raise ValueError(f"{self._key}: partitions of other topics were handed in: {', '.join(strange)}")
