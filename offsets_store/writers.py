"""Writes a group's rows: read the newest version, decide, commit, and repeat if another writer was faster.

`OffsetsRun`, in a module of its own, is the one writer of a query. The consumers that share a run write beside each
other: TubeMQ decides which of them may read a partition (the master lets one client be a node, a broker lets one client
have a partition). So they need not fence each other, and one epoch fences them together.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from offsets_store.errors import CommitConflict, SupersededRun
from offsets_store.progress import GroupKey, PartitionProgress
from offsets_store.rows import Row, Stamp, moved_on, newest_run, next_sequence
from offsets_store.storage import Conflict, Storage
from tubeclient.keys import PartitionKey

__all__ = ["TRIES", "GroupWriter", "SharedRun", "TableAccess"]

# A lost commit means that another writer of the group committed in the few milliseconds since our read. The next read
# shows who. More than a few in a row mean that two runs compete.
TRIES = 8


class TableAccess(NamedTuple):
    """What all writers of one table share."""

    storage: Storage
    lock: threading.Lock
    """Held while the storage is used."""
    clock_ms: Callable[[], int]
    client_version: str


class GroupWriter(ABC):
    """What all writers of one key's rows share. Subclasses choose the epoch and the rows."""

    def __init__(self, access: TableAccess, key: GroupKey, source_count: int) -> None:
        self._storage, self._lock, self._clock_ms, self._client_version = access
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


class SharedRun(GroupWriter):
    """One consumer's part in its group's run. Made by `OffsetsTable.share_run`.

    It uses the newest epoch that the group had when it was made. If the group had none, it uses the epoch of the first
    consumer that writes. A Spark query that still runs under this epoch stops at its next commit.
    """

    def __init__(self, access: TableAccess, key: GroupKey, source_count: int, epoch: int | None) -> None:
        super().__init__(access, key, source_count)
        self._epoch = self._clock_ms() if epoch is None else epoch
        self._adopts = epoch is None

    @property
    def epoch(self) -> int:
        """Milliseconds since 1970 at the start of the shared run."""
        return self._epoch

    def record(self, progress: Sequence[PartitionProgress]) -> bool:
        """Move the partitions of `progress` forward, and no others. A partition moves back only if its row equals
        `start_offset`: the consumer accepted that messages are lost.

        So a consumer that has not yet noticed the loss of a partition cannot undo its successor's record. Returns False
        and writes nothing if no partition moves. Raises SupersededRun if a newer run took the group over,
        OffsetsTableError if the table cannot be used.
        """
        self._wanted(progress)

        def rows(mine: list[Row], stamp: Stamp) -> list[Row] | None:
            # Drop the kept initial offsets: a new query begins where the consumers are.
            positions, moved = moved_on(
                self._key,
                mine,
                progress,
                stamp,
                lambda p, row: p.next_offset > row.next_offset or p.start_offset == row.next_offset,
            )
            return positions if moved else None

        changed = self._commit(rows)
        if changed:
            self._adopts = False
        return changed

    def _epoch_over(self, found: Sequence[Row]) -> int:
        newest = newest_run(found)
        if newest is not None and self._adopts:
            self._epoch, self._adopts = newest.run_epoch, False
        elif newest is not None and newest.run_epoch > self._epoch:
            raise SupersededRun(self._key.consumer_group, self._epoch, newest.run_epoch, newest.updated_at)
        return self._epoch
