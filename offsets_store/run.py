"""One run of a group: the only writer of the group's rows until a newer run writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from offsets_store.errors import SupersededRun
from offsets_store.progress import GroupKey, PartitionProgress
from offsets_store.rows import (
    Row,
    Stamp,
    initial_of,
    initial_rows,
    newest_run,
    places_of,
    position_rows,
    waiting_of,
    waiting_rows,
)
from offsets_store.schema import INITIAL, POSITION, WAITING
from offsets_store.writers import GroupWriter, TableAccess
from tubeclient.keys import PartitionKey

__all__ = ["OffsetsRun"]


class OffsetsRun(GroupWriter):
    """The writer of one query's run. Made by `OffsetsTable.open_run`.

    Each commit replaces all rows of the run's group and topic set, so the table stays small; older states are versions
    of the Delta table. Each commit first reads the newest version. If another run of the group has a newer epoch, or
    the same one, this run raises `SupersededRun` and writes nothing. It overrides older runs.
    """

    def __init__(self, access: TableAccess, key: GroupKey, source_count: int, epoch: int) -> None:
        super().__init__(access, key, source_count)
        self._epoch = epoch
        self._last, self._last_but_one = 0, 0
        """The sequences of this run's last commits, whose answers may be lost."""
        self._clear_initial = False

    def __repr__(self) -> str:
        return f"OffsetsRun({self._key}, epoch={self._epoch})"

    @property
    def epoch(self) -> int:
        """Milliseconds since 1970 at the run's start, made unique within the group."""
        return self._epoch

    def record(
        self,
        progress: Sequence[PartitionProgress],
        as_of: datetime | None = None,
        waiting: Mapping[PartitionKey, str] | None = None,
    ) -> bool:
        """Make `progress` the group's position as of `as_of` (UTC, default now): all partitions of the batch's offsets,
        read or not. `waiting` maps each partition without an offset to its starting text; None keeps the table's
        waiting partitions that `progress` lacks.

        Returns False and writes nothing if the table already has these positions: recording a batch twice is harmless.
        Raises SupersededRun if a newer run of the group has written, OffsetsTableError if the table cannot be used; the
        table is then unchanged.
        """
        wanted = self._wanted(progress)
        self._check_topics(waiting or ())

        def rows(mine: list[Row], stamp: Stamp) -> list[Row] | None:
            kept = [] if self._clear_initial else [row for row in mine if row.kind == INITIAL]
            waited = places_of(row for row in mine if row.kind == WAITING)
            waits = {p: place for p, place in (waited if waiting is None else waiting).items() if p not in wanted}
            found = {row.partition: row.next_offset for row in mine if row.kind == POSITION}
            if found == wanted and waits == waited and len(kept) + len(found) + len(waits) == len(mine):
                return None
            still = waiting_rows(self._key, waits, stamp)
            return [*position_rows(self._key, progress, stamp), *still, *kept]

        changed = self._commit(rows, as_of)
        self._clear_initial = False
        return changed

    def initial_offsets(self, starting: str) -> dict[PartitionKey, int] | None:
        """The initial offsets kept for the starting options `starting`; None if none are kept."""
        with self._lock:
            return initial_of(self._key, starting, self._storage.rows(self._key.consumer_group))

    def initial_waiting(self, starting: str) -> dict[PartitionKey, str]:
        """The partitions of the initial offsets that have no offset yet, with their starting texts."""
        with self._lock:
            return waiting_of(self._key, starting, self._storage.rows(self._key.consumer_group))

    def keep_initial(
        self,
        starting: str,
        offsets: Mapping[PartitionKey, int],
        waiting: Mapping[PartitionKey, str] | None = None,
        ends: Mapping[PartitionKey, int] | None = None,
    ) -> list[PartitionKey]:
        """Keep the initial offsets, until `clear_initial`; replaces earlier ones. `waiting` maps each partition without
        an offset to its starting text.

        Spark asks for them again if its first batch did not complete, and "latest" has moved on by then. Nobody would
        read what lies between the two answers. Raises as `record` does.

        `ends` are the ends of the brokers' data. A position past its end goes back to the initial offset, in the same
        commit: what a broker appends from now on is before it, and nobody has read it. Returns those partitions.
        """
        waits = waiting or {}
        self._check_topics([*offsets, *waits])
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
            before = [
                row for row in mine if row.kind != INITIAL and not (row.kind == POSITION and row.partition in back)
            ]
            moved = position_rows(self._key, back.values(), stamp)
            return [*before, *moved, *initial_rows(self._key, starting, offsets, waits, stamp)]

        self._clear_initial = False
        self._commit(rows)
        return sorted(back)

    def clear_initial(self) -> None:
        """Let the next `record` drop the kept initial offsets in its commit: the first batch is complete."""
        self._clear_initial = True

    def _epoch_over(self, found: Sequence[Row]) -> int:
        newest = newest_run(found)
        if newest is not None and newest.run_epoch > self._epoch:
            raise self._superseded_by(newest)
        # The same epoch with a sequence past ours means that two runs started in the same millisecond. One before it is
        # ours, as no twin was there at any of our looks: the table may have been restored.
        twin = newest_run(row for row in found if row.run_epoch == self._epoch)
        if twin is not None and twin.sequence > self._last:
            raise self._superseded_by(twin)
        return self._epoch

    def _trying(self, sequence: int) -> None:
        # Before the try: if the answer is lost, the commit is ours all the same.
        self._last, self._last_but_one = sequence, self._last

    def _lost(self, sequence: int) -> None:
        self._last = self._last_but_one

    def _superseded_by(self, newer: Row) -> SupersededRun:
        return SupersededRun(self._key.consumer_group, self._epoch, newer.run_epoch, newer.updated_at)
