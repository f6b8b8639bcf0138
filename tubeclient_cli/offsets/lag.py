"""How far behind a group is, store by store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from offsets_store import GroupProgress
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey, StoreKey, rows_behind_by_store

if TYPE_CHECKING:
    from tubeclient_cli.offsets.brokers import Brokers

__all__ = ["GroupLag", "PartitionLag", "lag_at_commit", "lag_now"]


class PartitionLag(NamedTuple):
    """What is left to read of one partition. Index offsets; None if unknown."""

    partition: PartitionKey
    next_offset: int | None
    end_offset: int | None
    rows_behind: int | None
    """Upper bound: the partitions of a store share its index."""


@dataclass(frozen=True, slots=True)
class GroupLag:
    """What is left to read of one topic set."""

    topic_set: str
    as_of: datetime | None
    """The time of the group's commit; None if the brokers were queried just now."""
    partitions: tuple[PartitionLag, ...]
    """Sorted by partition."""
    stores: dict[StoreKey, int] | None
    """Upper bound of the rows behind; None if the end of a partition is unknown."""
    expired: int = 0
    """Upper bound of the unread rows that the brokers no longer hold."""

    @property
    def rows_behind(self) -> int | None:
        """Over all stores, upper bound."""
        return None if self.stores is None else sum(self.stores.values())


def lag_at_commit(progress: GroupProgress) -> GroupLag:
    """The lag as of the group's last commit, from the ends recorded with it."""
    rows = tuple(PartitionLag(p.partition, p.next_offset, p.end_offset, p.lag) for p in progress.partitions)
    ends = {row.partition: row.end_offset for row in rows if row.end_offset is not None}
    stores = rows_behind_by_store(ends, progress.positions) if len(ends) == len(rows) else None
    return GroupLag(progress.group.topic_set, progress.updated_at, rows, stores)


def lag_now(progress: GroupProgress, brokers: Brokers) -> GroupLag:
    """The lag as of now, from what the brokers hold. A partition that the table does not have counts from its
    beginning; one that left the cluster does not count."""
    held = {partition: brokers.bounds[partition.store] for partition in brokers.view.partitions()}
    known = progress.positions
    begins = {partition: max(known.get(partition, 0), bounds.min_offset) for partition, bounds in held.items()}
    rows = tuple(
        PartitionLag(
            partition,
            known.get(partition),
            bounds.max_offset,
            max(0, bounds.max_offset - begins[partition]) // INDEX_ENTRY_BYTES,
        )
        for partition, bounds in sorted(held.items())
    )
    ends = {partition: bounds.max_offset for partition, bounds in held.items()}
    firsts = {partition: held[partition].min_offset for partition in held.keys() & known.keys()}
    expired = sum(rows_behind_by_store(firsts, known).values())
    return GroupLag(progress.group.topic_set, None, rows, rows_behind_by_store(ends, begins), expired)
