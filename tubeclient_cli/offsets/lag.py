"""How far behind a group is, store by store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from offsets_store import GroupProgress
from tubeclient.errors import ConfigurationError, NoMessageTime
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey, StoreKey, rows_behind_by_store

if TYPE_CHECKING:
    from tubeclient_cli.offsets.brokers import Brokers

__all__ = ["GroupLag", "OldestUnread", "PartitionLag", "exceeded", "lag_at_commit", "lag_now", "oldest_unread"]

_MESSAGE_TIME_STEP = timedelta(minutes=1)
"""Messages have the minute of their time."""


class PartitionLag(NamedTuple):
    """What is left to read of one partition. Index offsets; None if unknown."""

    partition: PartitionKey
    next_offset: int | None
    end_offset: int | None
    rows_behind: int | None
    """Upper bound: the partitions of a store share its index."""


class OldestUnread(NamedTuple):
    """The oldest message that the group has not read."""

    partition: PartitionKey
    at: datetime
    """UTC, the minute that its producer wrote on it."""


@dataclass(frozen=True, slots=True)
class GroupLag:
    """What is left to read of one topic set."""

    topic_set: str
    as_of: datetime | None
    """The time of the group's commit; None if the brokers were queried just now."""
    partitions: tuple[PartitionLag, ...]
    """Sorted by partition."""
    stores: dict[StoreKey, int] | None
    """Upper bound of the messages behind; None if the end of a partition is unknown."""
    expired: int = 0
    """Upper bound of the unread rows that the brokers no longer hold."""
    beyond: tuple[PartitionKey, ...] = ()
    """Partitions whose position lies beyond the last message that their broker has, so nothing is known of their lag:
    the topic was made anew, or the broker lost its newest messages."""
    oldest: OldestUnread | None = None
    """Only if it was asked for and there is one."""

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
    beyond = tuple(row.partition for row in rows if (row.next_offset or 0) > ends[row.partition])
    return GroupLag(progress.group.topic_set, None, rows, rows_behind_by_store(ends, begins), expired, beyond)


def oldest_unread(lag: GroupLag, brokers: Brokers, time_zone: str) -> OldestUnread | None:
    """The oldest message that is left to read, by the times that producers write on messages; None if there is none.

    Looks at the first unread message of each partition. ConfigurationError if one has no time; other errors of
    `OffsetLookup.first_times`.
    """
    behind = {row.partition: row.next_offset or 0 for row in lag.partitions if row.rows_behind}
    found = []
    for partition, (time_ms, failure) in brokers.first_times(behind, brokers.bounds, time_zone).items():
        if isinstance(failure, NoMessageTime):
            raise ConfigurationError(f"--max-age goes by the times of messages: {failure}. Use --max-lag instead")
        if failure is not None:
            raise failure
        if time_ms is not None:
            found.append(OldestUnread(partition, datetime.fromtimestamp(time_ms / 1000, UTC)))
    return min(found, key=lambda one: one.at, default=None)


def exceeded(lag: GroupLag, max_lag: int | None, max_age: timedelta | None, now: datetime) -> str | None:
    """Which bound the lag exceeds, as a sentence's part; None if none. A position beyond its broker's last message
    exceeds any. ConfigurationError if the lag is unknown, or the oldest
    message is of a time to come.

    A message counts as no older than the end of its minute.
    """
    if lag.beyond and (max_lag is not None or max_age is not None):
        return f"the position of {lag.beyond[0]} is beyond the last message that its broker has, so its lag is unknown"
    if max_lag is not None:
        if lag.rows_behind is None:
            raise ConfigurationError(
                "--max-lag needs the ends of all partitions, and the last commit has not all of them; add "
                "--master-servers"
            )
        if lag.rows_behind > max_lag:
            return f"{lag.rows_behind:,} messages behind, more than --max-lag {max_lag:,}"
    if max_age is not None and lag.oldest is not None:
        at = lag.oldest.at.isoformat(sep=" ", timespec="minutes")
        if lag.oldest.at - now > _MESSAGE_TIME_STEP:
            raise ConfigurationError(
                f"--max-age goes by the times of messages, and the oldest unread message is of {at}, after this"
                " machine's clock; is --time-zone the zone of the producers' clocks?"
            )
        if now - lag.oldest.at - _MESSAGE_TIME_STEP > max_age:
            return f"the oldest unread message is of {at}, older than --max-age allows"
    return None
