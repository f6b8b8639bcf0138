"""A second writer beside a group's run: it heard sooner than the run did that a batch is complete."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from offsets_store.group_writer import GroupWriter
from offsets_store.progress import GroupKey, PartitionProgress
from offsets_store.rows import COMPANION, Row, Stamp, newest_run, position_rows
from offsets_store.schema import INITIAL, POSITION
from offsets_store.storage import Storage

__all__ = ["Companion"]

_NO_RUN = 0
"""The epoch where no run has written: older than every run's, so that none takes it for a newer one."""


class Companion(GroupWriter):
    """Writes in the name of the run that wrote last. Made by `OffsetsTable.join_run`.

    It moves partitions forward and never back, and leaves the rows of all others as they are. Its rows carry the epoch
    of the run and a mark in `clientVersion`, by which the run knows that no other run wrote them. Where no run has
    written yet, or ever does, the epoch is 0.
    """

    def __init__(
        self,
        storage: Storage,
        lock: threading.Lock,
        key: GroupKey,
        source_count: int,
        clock_ms: Callable[[], int],
        client_version: str,
    ) -> None:
        super().__init__(storage, lock, key, source_count, clock_ms, client_version + COMPANION)

    def __repr__(self) -> str:
        return f"Companion({self._key})"

    def record(self, progress: Sequence[PartitionProgress]) -> bool:
        """Move the group forward to `progress`: the end of a batch that the sink has completely.

        A kept first answer goes where `progress` has reached it: the first batch is complete. Returns False, and writes
        nothing, where the table is there already or further on. Raises OffsetsTableError where the table cannot be
        used; then the table is as it was.
        """
        wanted = self._wanted(progress)

        def rows(mine: list[Row], stamp: Stamp) -> list[Row] | None:
            known = {row.partition: row for row in mine if row.kind == POSITION}
            moved = [
                # Who reads a partition is known to the run, and mostly not to its companion.
                p
                if p.node_id is not None or p.partition not in known
                else p._replace(node_id=known[p.partition].node_id)
                for p in progress
                if p.partition not in known or known[p.partition].next_offset < p.next_offset
            ]
            initial = [row for row in mine if row.kind == INITIAL]
            if initial and all(wanted.get(row.partition, -1) >= row.next_offset for row in initial if row.topic):
                kept: list[Row] = []
            else:
                kept = initial
            if not moved and kept == initial:
                return None
            stay = known.keys() - {p.partition for p in moved}
            return [*position_rows(self._key, moved, stamp), *(known[partition] for partition in sorted(stay)), *kept]

        return self._commit(rows)

    def _epoch_over(self, found: Sequence[Row]) -> int:
        newest = newest_run(found)
        return _NO_RUN if newest is None else newest.run_epoch
