"""A second writer beside a group's run, for a process that learns earlier that a batch is complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from offsets_store.group_writer import GroupWriter
from offsets_store.progress import PartitionProgress
from offsets_store.rows import COMPANION, Row, Stamp, moved_on, newest_run, places_of, waiting_rows
from offsets_store.schema import INITIAL, POSITION
from tubeclient.keys import PartitionKey

__all__ = ["Companion"]

_NO_RUN = 0
"""The epoch while no run has written. Every run's epoch is higher, so no run takes it for a newer run."""


class Companion(GroupWriter):
    """Writes in the name of the newest run. Made by `OffsetsTable.join_run`.

    It moves the partitions it has newer progress for, and leaves all other rows as they are. Its rows carry the run's
    epoch and a mark in `clientVersion`; the mark tells the run that no other run wrote them. While no run has written,
    the epoch is 0.
    """

    _mark = COMPANION

    def __repr__(self) -> str:
        return f"Companion({self._key})"

    def record(self, progress: Sequence[PartitionProgress], as_of: datetime | None = None) -> bool:
        """Move the group to `progress`, the end of a batch. The sink had that batch completely at `as_of` (UTC, default
        now).

        A row that is newer than `as_of` stays. A row that is older may move back: a query accepted that messages were
        lost. A row of the same time only moves forward. The kept initial offsets are dropped once `progress` has
        reached them: the first batch is complete. Returns False and writes nothing if nothing changes. Raises
        OffsetsTableError if the table cannot be used; the table is then unchanged.
        """
        wanted = self._wanted(progress)

        def rows(mine: list[Row], stamp: Stamp) -> list[Row] | None:
            # The run knows which node reads a partition; its companion usually does not.
            nodes = {row.partition: row.node_id for row in mine if row.kind == POSITION}
            told = [p if p.node_id is not None else p._replace(node_id=nodes.get(p.partition)) for p in progress]
            positions, moved = moved_on(
                self._key,
                mine,
                told,
                stamp,
                lambda p, row: not self._is_newer(row, p, stamp.updated_at),
            )
            initial = [row for row in mine if row.kind == INITIAL]
            if initial and all(wanted.get(row.partition, -1) >= row.next_offset for row in initial if row.topic):
                begun = {row.partition for row in positions}
                waits = {p: place for p, place in places_of(initial).items() if p not in begun}
                kept = waiting_rows(self._key, waits, stamp)
                positions = _of_newest_run(positions, initial, wanted, stamp)
            else:
                kept = initial
            if not moved and kept == initial:
                return None
            return [*positions, *kept]

        return self._commit(rows, as_of)

    def _epoch_over(self, found: Sequence[Row]) -> int:
        newest = newest_run(found)
        return _NO_RUN if newest is None else newest.run_epoch


def _of_newest_run(
    rows: Sequence[Row], initial: Sequence[Row], wanted: Mapping[PartitionKey, int], stamp: Stamp
) -> list[Row]:
    """`rows`, of which those that `wanted` confirms are in the name of the run that kept `initial`, if it is newer.

    The initial offsets may be all that the run has written. Once they are gone, an older run must find its epoch.
    """
    epoch = max(row.run_epoch for row in initial)
    return [
        row._replace(run_epoch=epoch, sequence=stamp.sequence, client_version=stamp.client_version)
        if row.run_epoch < epoch and wanted.get(row.partition) == row.next_offset
        else row
        for row in rows
    ]
