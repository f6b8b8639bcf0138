"""Writes a group's rows: read the newest version, decide, commit, and repeat if another writer was faster.

An `OffsetsRun` is the one writer of a group, until a newer run writes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

from offsets_store.errors import CommitConflict, SupersededRun
from offsets_store.progress import GroupKey, PartitionProgress
from offsets_store.rows import (
    Row,
    Stamp,
    initial_of,
    initial_rows,
    newest_run,
    next_sequence,
    position_rows,
)
from offsets_store.schema import INITIAL, POSITION
from tubeclient.keys import PartitionKey
from tubeclient.names import GroupName

# A lost commit means that another writer of the group committed in the few milliseconds since our read. The next read
# shows who. More than a few in a row mean that two runs compete.
_TRIES = 8


class Conflict(Exception):
    """The commit lost against another writer's; nothing was written. The text fits into an error message."""


class Storage(Protocol):
    """One Delta table; the first write creates it. For one thread at a time.

    Every method raises `OffsetsTableError` if the table cannot be used. Its text holds no secret.
    """

    def rows(self, consumer_group: GroupName) -> list[Row]:
        """The group's rows, of all its topic sets, in the table's newest version; [] if there is no table."""

    def transaction_version(self) -> int | None:
        """The sequence of the group's last commit, from the Delta transactions of what `rows` read last.

        None if there is none or it is unknown; then rows deleted by hand take the sequence with them.
        """

    def replace(self, key: GroupKey, rows: Sequence[Row], sequence: int) -> None:
        """Replace all rows of `key` by `rows`, in one commit on top of the version that `rows` read last.

        Raises Conflict if the group was written since, under any topic set. Commits of other groups do not matter.
        """


class TableAccess(NamedTuple):
    """What all writers of one table share."""

    storage: Storage
    lock: threading.Lock
    """Held while the storage is used."""
    clock_ms: Callable[[], int]
    client_version: str


class OffsetsRun:
    """The writer of one query's run. `OffsetsTable.open_run` makes it.

    Each commit replaces all rows of the run's group and topic set, so the table stays small; older states are versions
    of the Delta table. Each commit first reads the newest version. If another run of the group has a newer epoch, or
    the same one, this run raises `SupersededRun` and writes nothing. It overrides older runs.
    """

    def __init__(self, access: TableAccess, key: GroupKey, source_count: int, epoch: int) -> None:
        self._storage, self._lock, self._clock_ms, self._client_version = access
        self._key = key
        self._source_count = source_count
        self._epoch = epoch
        self._last = 0
        """The sequence of this run's last commit, whose answer may be lost."""
        self._clear_initial = False

    def __repr__(self) -> str:
        return f"OffsetsRun({self._key}, epoch={self._epoch})"

    @property
    def epoch(self) -> int:
        """Milliseconds since 1970 at the run's start, made unique within the group."""
        return self._epoch

    def record(self, progress: Sequence[PartitionProgress], as_of: datetime | None = None) -> bool:
        """Make `progress` the group's position.

        Recording a batch twice is harmless. After an error the table is unchanged.

        Args:
            progress: All partitions of the batch's offsets, read or not.
            as_of: When the position was valid (UTC), by default now.

        Returns:
            False, without a write, if the table already has these positions.

        Raises:
            SupersededRun: A newer run of the group has written.
            OffsetsTableError: The table cannot be used.
            ValueError: A partition is named twice, or is of another topic.
        """
        wanted = {p.partition: p.next_offset for p in progress}
        if len(wanted) != len(progress):
            raise ValueError("a partition is named twice in the recorded progress")
        self._check_topics(wanted)

        def rows(mine: list[Row], stamp: Stamp) -> list[Row] | None:
            initial = [] if self._clear_initial else [row for row in mine if row.kind == INITIAL]
            found = {row.partition: row.next_offset for row in mine if row.kind == POSITION}
            if found == wanted and len(initial) + len(found) == len(mine):
                return None
            return [*position_rows(self._key, progress, stamp), *initial]

        return self._commit(rows, as_of)

    def initial_offsets(self, starting: str) -> dict[PartitionKey, int] | None:
        """Return the initial offsets kept for the starting options `starting`, or None if none are kept."""
        with self._lock:
            return initial_of(self._key, starting, self._storage.rows(self._key.consumer_group))

    def keep_initial(
        self,
        starting: str,
        offsets: Mapping[PartitionKey, int],
        ends: Mapping[PartitionKey, int] | None = None,
    ) -> list[PartitionKey]:
        """Keep the initial offsets until `clear_initial`. This replaces earlier ones.

        Spark asks for them again if its first batch did not complete. By then "latest" has moved on, and nobody would
        read what lies between the two answers.

        Args:
            starting: The starting options that gave the offsets.
            ends: The ends of the brokers' data. A position past its end goes back to the initial offset, in the same
                commit. What a broker appends from now on is before it, and nobody has read it.

        Returns:
            The partitions whose position went back.

        Raises:
            SupersededRun: As in `record`.
            OffsetsTableError: As in `record`.
            ValueError: As in `record`.
        """
        self._check_topics(offsets)
        back: dict[PartitionKey, PartitionProgress] = {}

        def rows(mine: list[Row], stamp: Stamp) -> list[Row]:
            nonlocal back
            back = {
                row.partition: PartitionProgress(row.partition, begin, end, row.node_id, row.next_offset)
                for row in mine
                if row.kind == POSITION
                and (begin := offsets.get(row.partition)) is not None
                and (end := (ends or {}).get(row.partition)) is not None
                and row.next_offset > max(begin, end)
            }
            before = [row for row in mine if row.kind == POSITION and row.partition not in back]
            moved = position_rows(self._key, back.values(), stamp)
            return [*before, *moved, *initial_rows(self._key, starting, offsets, stamp)]

        self._clear_initial = False
        self._commit(rows)
        return sorted(back)

    def clear_initial(self) -> None:
        """Let `record` drop the kept initial offsets in its commit, because the first batch is complete."""
        self._clear_initial = True

    def _commit(self, make_rows: Callable[[list[Row], Stamp], list[Row] | None], as_of: datetime | None = None) -> bool:
        """Replace the key's rows by the result of `make_rows`; returns False, without a commit, if that is None.
        `as_of` (UTC, default now) goes into the rows."""
        reason = ""
        with self._lock:
            for _ in range(_TRIES):
                found = self._storage.rows(self._key.consumer_group)
                self._check_epoch(found)
                sequence = next_sequence(found, self._storage.transaction_version())
                updated_at = as_of or datetime.fromtimestamp(self._clock_ms() / 1000, UTC)
                stamp = Stamp(self._source_count, self._epoch, sequence, updated_at, self._client_version)
                rows = make_rows([row for row in found if row.belongs_to(self._key)], stamp)
                if rows is None:
                    return False
                # Before the try: if the answer is lost, the commit is ours all the same.
                before, self._last = self._last, sequence
                try:
                    self._storage.replace(self._key, rows, sequence)
                except Conflict as conflict:
                    self._last = before  # another writer used that sequence
                    reason = str(conflict)
                else:
                    return True
        raise CommitConflict(
            f"{self._key}: {_TRIES} commits in a row lost to another writer of this group, or of other groups that "
            f"share the table ({reason}); stop the other query of this group, give one of the two its own "
            "consumerGroup, or give some of the groups their own table"
        )

    def _check_epoch(self, found: Sequence[Row]) -> None:
        newest = newest_run(found)
        if newest is not None and newest.run_epoch > self._epoch:
            raise _superseded(self._epoch, newest)
        # The same epoch with a sequence past ours means that two runs started in the same millisecond. One before it is
        # ours, as no twin was there at any of our looks: the table may have been restored.
        twin = newest_run(row for row in found if row.run_epoch == self._epoch)
        if twin is not None and twin.sequence > self._last:
            raise _superseded(self._epoch, twin)

    def _check_topics(self, partitions: Iterable[PartitionKey]) -> None:
        strange = sorted(topic for topic in {p.topic for p in partitions} if not self._key.covers(topic))
        if strange:
            raise ValueError(f"{self._key}: the offsets include partitions of other topics: {', '.join(strange)}")


def _superseded(epoch: int, newer: Row) -> SupersededRun:
    return SupersededRun(
        f"group {newer.consumer_group!r}: the run that started at {moment(epoch)} (epoch {epoch}) was superseded by "
        f"the run that started at {moment(newer.run_epoch)} (epoch {newer.run_epoch}), which wrote offsets last at "
        f"{newer.updated_at.astimezone(UTC).isoformat(timespec='seconds')}. Only one query may use a group: stop one "
        "of the two, or give it its own consumerGroup"
    )


def moment(epoch_ms: int) -> str:
    """A run's start for people."""
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="milliseconds")
