"""How far behind a group is, and whether it is well: its commits in the table, and what the brokers have for it now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from offsets_store import GroupKey, GroupProgress, OffsetsTable, OffsetsTableError
from offsets_store.health import (
    GroupHealth,
    GroupPast,
    PartitionHealth,
    Unread,
    Verdict,
    judge,
    unread_in,
)
from tubeclient.errors import TubeError
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey, rows_behind
from tubeclient_cli.common.offsets_tables import nothing_kept
from tubeclient_cli.offsets.brokers import Brokers, brokers_of

__all__ = ["GroupLag", "GroupStatus", "lag_at_commit", "lag_now", "statuses"]

_MESSAGE_TIME_STEP: Final = timedelta(minutes=1)
"""Messages have the minute of their time."""

_ASKS_FOR_TIMES: Final = frozenset({Verdict.STOP, Verdict.STALL, Verdict.UNKNOWN})
"""Verdicts that the time of the oldest unread message may change."""


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


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """The verdict on a group, and who holds it."""

    group: GroupKey
    health: GroupHealth
    clients: int | None
    """The group's clients that the master knows, Spark queries among them. Asked only after a STOP; None otherwise, and
    if the master's web port did not tell."""


def statuses(
    table: OffsetsTable,
    names: list[str],
    master_servers: str,
    options: list[str] | None,
    *,
    max_silence: timedelta | None = None,
    time_zone: str = "UTC",
) -> Iterator[tuple[str, GroupStatus | TubeError | OffsetsTableError]]:
    """The status of each of these groups of the table, or why there is none. `options` are those of `--option`,
    `time_zone` that of the producers' clocks; `judge` documents the rest."""
    for name in names:
        one: GroupStatus | TubeError | OffsetsTableError
        try:
            past = table.past(name)
            if past is None:
                raise nothing_kept(table, name)
            with brokers_of(master_servers, past.group, options) as brokers:
                one = _status(past, brokers, datetime.now(UTC), max_silence, time_zone)
        except (TubeError, OffsetsTableError) as error:
            one = error
        yield name, one


def _status(
    past: GroupPast, brokers: Brokers, now: datetime, max_silence: timedelta | None, time_zone: str
) -> GroupStatus:
    """A broker that does not answer leaves its partitions UNKNOWN. Raises TubeError if no broker answers."""
    bounds = brokers.look.bounds
    listed = set(brokers.view.partitions())

    def verdict(partition: PartitionKey, unread: Unread | None) -> PartitionHealth:
        return judge(partition, past.positions[partition], unread, now, max_silence=max_silence)

    found = {}
    for partition, seen in past.positions.items():
        known = bool(seen) and partition in listed and partition.store in bounds
        found[partition] = verdict(
            partition, unread_in(bounds[partition.store], seen[-1].next_offset) if known else None
        )
    doubtful = {
        partition: one.next_offset
        for partition, one in found.items()
        if one.verdict in _ASKS_FOR_TIMES and one.rows_behind and one.next_offset is not None
    }
    if doubtful:
        for partition, (time_ms, failure) in brokers.first_times(doubtful, bounds, time_zone).items():
            if failure is not None:
                found[partition] = _because(found[partition], failure)
            elif time_ms is None:  # what is behind belongs to other partitions of the store
                found[partition] = verdict(partition, Unread(0))
            else:
                found[partition] = verdict(partition, Unread(found[partition].rows_behind or 0, _came(time_ms, now)))
    silent = brokers.look.silent
    for partition, one in found.items():
        if one.next_offset is not None and one.rows_behind is None:
            why = (
                f"broker {partition.broker_id} gave no answer: {silent[partition.broker_id]}"
                if partition.broker_id in silent
                else f"the master does not list it: broker {partition.broker_id} is away, or the topic was deleted"
            )
            found[partition] = one._replace(why=why)
    health = GroupHealth.of(found.values())
    return GroupStatus(past.group, health, _clients(brokers) if health.verdict is Verdict.STOP else None)


def _came(time_ms: int, now: datetime) -> datetime:
    """When a message came, at the latest: it has the minute of its time."""
    came = datetime.fromtimestamp(time_ms / 1000, UTC)
    return max(came, min(came + _MESSAGE_TIME_STEP, now))


def _because(one: PartitionHealth, failure: TubeError) -> PartitionHealth:
    """A partition that could only be judged by the time of a message, which is unknown."""
    return one._replace(why=f"{one.why}: {failure}") if one.verdict is Verdict.UNKNOWN else one


def _clients(brokers: Brokers) -> int | None:
    try:
        return len(brokers.consumers())
    except TubeError:
        return None
