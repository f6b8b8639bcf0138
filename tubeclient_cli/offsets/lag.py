"""How far behind a group is, partition by partition."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from offsets_store import GroupProgress
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey, rows_behind

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

    as_of: datetime | None
    """The time of the group's commit; None if the brokers were queried just now."""
    partitions: tuple[PartitionLag, ...]
    """Sorted by partition."""
    rows_behind: int | None
    """Over all stores, upper bound; None if the end of a partition is unknown."""
    expired: int = 0
    """Upper bound of the unread rows that the brokers no longer hold."""
    beyond: tuple[PartitionKey, ...] = ()
    """Partitions whose position lies beyond the last message that their broker has, so nothing is known of their lag:
    the topic was made anew, or the broker lost its newest messages."""


def lag_at_commit(progress: GroupProgress) -> GroupLag:
    """The lag as of the group's last commit, from the ends recorded with it."""
    rows = tuple(PartitionLag(p.partition, p.next_offset, p.end_offset, p.lag) for p in progress.partitions)
    return GroupLag(progress.updated_at, rows, progress.rows_behind)


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
    expired = rows_behind(firsts, known)
    beyond = tuple(row.partition for row in rows if (row.next_offset or 0) > ends[row.partition])
    return GroupLag(None, rows, rows_behind(ends, begins), expired, beyond)
