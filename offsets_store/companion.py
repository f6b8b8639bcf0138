"""A second writer beside a group's run: it heard sooner than the run did that a batch is complete."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from offsets_store.group_writer import GroupWriter
from offsets_store.progress import PartitionProgress
from offsets_store.rows import COMPANION, Row, Stamp, moved_on, newest_run, places_of, waiting_rows
from offsets_store.schema import INITIAL, POSITION

__all__ = ["Companion"]

_NO_RUN = 0
"""The epoch where no run has written: older than every run's, so that none takes it for a newer one."""


class Companion(GroupWriter):
    """Writes in the name of the run that wrote last. Made by `OffsetsTable.join_run`.

    It moves partitions by what is known later than the table, and leaves the rows of all others as they are. Its rows
    carry the epoch of the run and a mark in `clientVersion`, by which the run knows that no other run wrote them. Where
    no run has written yet, or ever does, the epoch is 0.
    """

    _mark = COMPANION

    def __repr__(self) -> str:
        return f"Companion({self._key})"

    def record(self, progress: Sequence[PartitionProgress], as_of: datetime | None = None) -> bool:
        """Move the group to `progress`: the end of a batch that the sink has completely, and had at `as_of` (by default
        now; UTC).

        A partition stays where the table had it later than that. It may go back: where messages were lost and a query
        went on without them. What is as old as the table moves forward only. A kept first answer goes where `progress`
        has reached it: the first batch is complete. Returns False, and writes nothing, where the table is there already
        or knows better. Raises OffsetsTableError where the table cannot be used; then the table is as it was.
        """
        wanted = self._wanted(progress)

        def rows(mine: list[Row], stamp: Stamp) -> list[Row] | None:
            # Who reads a partition is known to the run, and mostly not to its companion.
            nodes = {row.partition: row.node_id for row in mine if row.kind == POSITION}
            told = [p if p.node_id is not None else p._replace(node_id=nodes.get(p.partition)) for p in progress]
            positions, moved = moved_on(
                self._key,
                mine,
                told,
                stamp,
                lambda p, row: (stamp.updated_at, p.next_offset) > (row.updated_at, row.next_offset),
            )
            initial = [row for row in mine if row.kind == INITIAL]
            if initial and all(wanted.get(row.partition, -1) >= row.next_offset for row in initial if row.topic):
                begun = {row.partition for row in positions}
                waits = {p: place for p, place in places_of(initial).items() if p not in begun}
                kept = waiting_rows(self._key, waits, stamp)
            else:
                kept = initial
            if not moved and kept == initial:
                return None
            return [*positions, *kept]

        return self._commit(rows, as_of)

    def _epoch_over(self, found: Sequence[Row]) -> int:
        newest = newest_run(found)
        return _NO_RUN if newest is None else newest.run_epoch
