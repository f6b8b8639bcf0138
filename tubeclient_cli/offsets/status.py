"""Whether a group is well: its commits in the table, and what the brokers have for it now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from offsets_store import GroupKey
from offsets_store.health import (
    WINDOW,
    GroupHealth,
    GroupPast,
    PartitionHealth,
    Unread,
    Verdict,
    judge,
    unread_in,
)
from tubeclient.errors import TubeError
from tubeclient.keys import PartitionKey

if TYPE_CHECKING:
    from tubeclient_cli.offsets.brokers import Brokers

__all__ = ["GroupStatus", "group_status"]

_MESSAGE_TIME_STEP: Final = timedelta(minutes=1)
"""Messages have the minute of their time."""

_ENTRY_TIME: Final = timedelta(minutes=10)
"""A group that runs reads a new partition within this time."""

_ASKS_FOR_TIMES: Final = frozenset({Verdict.STOP, Verdict.STALL, Verdict.UNKNOWN})
"""Verdicts that the time of the oldest unread message may change."""


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """The verdict on a group, by how many commits, and who holds it."""

    group: GroupKey
    health: GroupHealth
    commits: int
    """The most commits that a partition was judged by: fewer than `WINDOW` if the group is young, or the table does not
    keep more."""
    clients: int | None
    """The group's clients that the master knows, Spark queries among them. Asked only after a STOP; None otherwise, and
    if the master's web port did not tell."""


def group_status(
    past: GroupPast,
    brokers: Brokers,
    now: datetime,
    *,
    max_silence: timedelta | None = None,
    time_zone: str = "UTC",
) -> GroupStatus:
    """Judge a group. `time_zone` is that of the producers' clocks; `judge` documents the rest.

    A broker that does not answer leaves its partitions UNKNOWN. Raises TubeError if no broker answers.
    """
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
    found |= _entered_meanwhile(past, brokers, now, max_silence, time_zone)
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
    return GroupStatus(
        past.group,
        health,
        min(WINDOW, max(map(len, past.positions.values()), default=0)),
        _clients(brokers) if health.verdict is Verdict.STOP else None,
    )


def _entered_meanwhile(
    past: GroupPast, brokers: Brokers, now: datetime, max_silence: timedelta | None, time_zone: str
) -> dict[PartitionKey, PartitionHealth]:
    """The verdicts on partitions that came since the group's last commit, and of which messages wait.

    Such a partition counts as read to its beginning whenever the group committed. A partition whose messages waited
    while the group committed is none of the group's, as in a query with `assign`.
    """
    commits = max((seen for seen in past.positions.values() if seen), key=lambda seen: seen[-1].at, default=())
    bounds = brokers.look.bounds
    found = {}
    for partition in set(brokers.view.partitions()) - past.positions.keys():
        if (held := bounds.get(partition.store)) is not None and commits:
            seen = [one._replace(next_offset=held.min_offset, end_offset=held.min_offset) for one in commits]
            one = judge(partition, seen, unread_in(held, held.min_offset), now, max_silence=max_silence)
            if one.verdict is not Verdict.OK:
                found[partition] = seen
    begins = {partition: seen[-1].next_offset for partition, seen in found.items()}
    health = {}
    for partition, (time_ms, _) in (brokers.first_times(begins, bounds, time_zone) if begins else {}).items():
        came = None if time_ms is None else _came(time_ms, now)
        if came is not None and came >= commits[-1].at - _ENTRY_TIME:
            unread = unread_in(bounds[partition.store], begins[partition])._replace(since=came)
            health[partition] = judge(partition, found[partition], unread, now, max_silence=max_silence)._replace(
                next_offset=None, committed_at=None
            )
    return health


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
