"""A run that several consumers of a group share. Each records its own partitions and leaves the others' alone.

TubeMQ decides who may read a partition: the master lets one client be a node, a broker lets one client have a
partition. So the consumers of a group need not fence each other. An epoch fences them together: a Spark query or a
reset that takes the group over uses a newer epoch, and all of them stop.
"""

from __future__ import annotations

from collections.abc import Sequence

from offsets_store.errors import SupersededRun
from offsets_store.group_writer import GroupWriter, TableAccess
from offsets_store.progress import GroupKey, PartitionProgress
from offsets_store.rows import Row, Stamp, moved_on, newest_run

__all__ = ["SharedRun"]


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
