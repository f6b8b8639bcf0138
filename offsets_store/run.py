"""One run of a group: the only writer of the group's rows, until a newer run writes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from offsets_store.errors import CommitConflict, SupersededRun
from offsets_store.progress import GroupKey, PartitionProgress
from offsets_store.rows import Row, Stamp, initial_of, initial_rows, newest_run, next_sequence, position_rows
from offsets_store.schema import INITIAL, POSITION
from offsets_store.storage import Conflict, Storage
from tubeclient.keys import PartitionKey

__all__ = ["OffsetsRun"]

# A lost commit means that another run of the group wrote in the few milliseconds since our look. It is told apart by
# looking again; more than a few in a row is two runs at war.
_TRIES = 8


class OffsetsRun:
    """What one query's run may do with its group's rows. Made by `OffsetsTable.open_run`.

    Each commit replaces the rows of the run's group and topic set as a whole, so the table stays small; older states
    are versions of the Delta table. Before each commit the newest version is read: a run of the group with a newer
    epoch, or another run with the same one, makes this run raise `SupersededRun` and write nothing. Older runs are
    overruled.
    """

    def __init__(
        self,
        storage: Storage,
        lock: threading.Lock,
        key: GroupKey,
        source_count: int,
        epoch: int,
        clock_ms: Callable[[], int],
        client_version: str,
    ) -> None:
        self._storage = storage
        self._lock = lock
        self._key = key
        self._source_count = source_count
        self._epoch = epoch
        self._clock_ms = clock_ms
        self._client_version = client_version
        self._own_sequences: set[int] = set()
        self._clear_initial = False

    def __repr__(self) -> str:
        return f"OffsetsRun({self._key}, epoch={self._epoch})"

    @property
    def group(self) -> GroupKey:
        return self._key

    @property
    def epoch(self) -> int:
        """Milliseconds since 1970 at the run's start, made unique within the group."""
        return self._epoch

    def record(self, progress: Sequence[PartitionProgress]) -> bool:
        """Make `progress` the group's position: all partitions of the batch's offsets, read or not.

        Returns False, and writes nothing, where the table has these very positions already, so recording a batch twice
        is harmless. Raises SupersededRun where a newer run of the group has written, OffsetsTableError where the table
        cannot be used; then the table is as it was.
        """
        wanted = {p.partition: p.next_offset for p in progress}
        if len(wanted) != len(progress):
            raise ValueError("a partition is named twice in the recorded progress")
        self._check_topics(wanted)

        def rows(mine: list[Row], stamp: Stamp) -> list[Row] | None:
            kept = [] if self._clear_initial else [row for row in mine if row.kind == INITIAL]
            positions = {row.partition: row.next_offset for row in mine if row.kind == POSITION}
            if positions == wanted and len(kept) + len(positions) == len(mine):
                return None
            return [*position_rows(self._key, progress, stamp), *kept]

        changed = self._commit(rows)
        self._clear_initial = False
        return changed

    def initial_offsets(self, starting: str) -> dict[PartitionKey, int] | None:
        """The kept first answer to the starting options `starting`; None if none is kept."""
        with self._lock:
            return initial_of(self._key, starting, self._storage.rows(self._key.consumer_group))

    def keep_initial(self, starting: str, offsets: Mapping[PartitionKey, int]) -> None:
        """Keep the first answer to "where does the query start", until `clear_initial`; replaces an earlier one.

        Spark asks again if its first batch did not complete, and "latest" has moved on by then: what lies between the
        two answers would be read by nobody. Raises as `record` does.
        """
        self._check_topics(offsets)

        def rows(mine: list[Row], stamp: Stamp) -> list[Row]:
            positions = [row for row in mine if row.kind == POSITION]
            return [*positions, *initial_rows(self._key, starting, offsets, stamp)]

        self._clear_initial = False
        self._commit(rows)

    def clear_initial(self) -> None:
        """Let the next `record` drop the kept first answer, in its own commit: the first batch is complete."""
        self._clear_initial = True

    def _commit(self, make_rows: Callable[[list[Row], Stamp], list[Row] | None]) -> bool:
        reason = ""
        with self._lock:
            for _ in range(_TRIES):
                found = self._storage.rows(self._key.consumer_group)
                self._refuse_newer(found)
                sequence = next_sequence(found, self._storage.transaction_version(self._key))
                stamp = self._stamp(sequence)
                rows = make_rows([row for row in found if row.belongs_to(self._key)], stamp)
                if rows is None:
                    return False
                # Noted before the try: a commit whose answer got lost is ours all the same.
                self._own_sequences = {*sorted(self._own_sequences)[-_TRIES:], sequence}
                try:
                    self._storage.replace(self._key, rows, sequence)
                except Conflict as conflict:
                    self._own_sequences.discard(sequence)
                    reason = str(conflict)
                else:
                    return True
        raise CommitConflict(
            f"{self._key}: {_TRIES} commits in a row lost against another writer of the group ({reason});"
            " stop the other query of this group, or give one of the two a consumerGroup of its own"
        )

    def _stamp(self, sequence: int) -> Stamp:
        updated_at = datetime.fromtimestamp(self._clock_ms() / 1000, UTC)
        return Stamp(self._source_count, self._epoch, sequence, updated_at, self._client_version)

    def _refuse_newer(self, found: Sequence[Row]) -> None:
        newest = newest_run(found)
        if newest is None or newest.run_epoch < self._epoch:
            return
        # The same epoch under a sequence that is not ours: two runs that started in one millisecond.
        if newest.run_epoch > self._epoch or newest.sequence not in self._own_sequences:
            raise SupersededRun(self._key.consumer_group, self._epoch, newest.run_epoch, newest.updated_at)

    def _check_topics(self, partitions: Mapping[PartitionKey, int]) -> None:
        strange = sorted(topic for topic in {p.topic for p in partitions} if not self._key.covers(topic))
        if strange:
            raise ValueError(f"{self._key}: partitions of other topics were handed in: {', '.join(strange)}")
