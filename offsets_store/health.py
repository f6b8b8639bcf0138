"""Whether a group is well, judged from its last commits and from what it has not read; pure, no I/O.

    past = table.past("clicks_etl")
    found = GroupHealth.of(judge(one, seen, unread_in(bounds[one.store], seen[-1].next_offset), now)
                           for one, seen in past.positions.items())
    found.verdict  # Verdict.OK

A window of its commits counts, not thresholds. The idea and the words are LinkedIn's Burrow's.

A number of messages says little: a group that reads in large batches is always behind, and an idle one never is. So
the judgement asks whether the group moves, and whether what is left to read grows. Differences to Burrow:

- A lag that stays the same while the group moves is a group that keeps pace. A query that reads a steady topic at a
  fixed interval looks like that.
- STOP counts also for a group that had caught up, from when messages wait. Queries do not commit while they have
  nothing to read.
- WARN and STALL need a full window, so a group that has just begun is not judged by one or two commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import Final, NamedTuple

from offsets_store.progress import GroupKey
from offsets_store.rows import Row, newest_run, places_of
from offsets_store.schema import WAITING
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey, StoreBounds

__all__ = [
    "MIN_SILENCE",
    "WINDOW",
    "GroupHealth",
    "GroupPast",
    "PartitionHealth",
    "PastPosition",
    "Unread",
    "Verdict",
    "judge",
    "past_of",
    "unread_in",
]

WINDOW: Final = 10
"""How many commits the judgement looks at."""

MIN_SILENCE: Final = timedelta(minutes=5)
"""A group that commits faster than this may still be silent so long before it counts as stopped."""

_CLOCK_DIFFERENCE: Final = timedelta(minutes=1)
"""Up to this, two machines' clocks count as equal, and what was read from a table and from brokers as of one moment."""


class Verdict(StrEnum):
    """What is said about a partition or a group. The later ones are worse, but for UNKNOWN, which says nothing."""

    UNKNOWN = "UNKNOWN"
    """Cannot be judged."""
    OK = "OK"
    """Nothing to read, or the group keeps pace, or it has begun too lately to say more."""
    WARN = "WARN"
    """The group moves, but its lag never falls and grows: it is slower than its producers."""
    REWIND = "REWIND"
    """The position went back, and is not yet where it was."""
    STALL = "STALL"
    """The group commits, but this position stays although there is something to read."""
    STOP = "STOP"
    """No commit for longer than is usual for the group, although there is something to read."""

    @property
    def severity(self) -> int:
        """Higher is worse; UNKNOWN is the lowest."""
        return list(Verdict).index(self)


class PastPosition(NamedTuple):
    """A partition's position at one commit. Index offsets."""

    at: datetime
    """UTC. When the position held."""
    next_offset: int
    end_offset: int | None
    """The end of the store's data then; None if unknown."""

    @property
    def rows_behind(self) -> int | None:
        """The most rows that were behind; None if unknown."""
        if self.end_offset is None:
            return None
        return max(0, self.end_offset - self.next_offset) // INDEX_ENTRY_BYTES


class Unread(NamedTuple):
    """What is left to read of a partition now."""

    rows: int
    """At most: partitions of one store share its index."""
    since: datetime | None = None
    """UTC. When the oldest unread message came; None if unknown, or if there is none. One by a clock that is ahead of
    ours counts as unknown."""
    lost_rows: int = 0
    """How many rows before the position the broker no longer has: the position is beyond the end of what it holds."""


def unread_in(bounds: StoreBounds, position: int) -> Unread:
    """What is left to read behind `position` within the store's bounds of now. Expired rows do not count."""
    behind = bounds.max_offset - max(position, bounds.min_offset)
    return Unread(
        max(0, behind) // INDEX_ENTRY_BYTES, lost_rows=max(0, position - bounds.max_offset) // INDEX_ENTRY_BYTES
    )


class PartitionHealth(NamedTuple):
    """The verdict on one partition."""

    partition: PartitionKey
    verdict: Verdict
    why: str
    """A sentence's part, without a full stop: "position 280 stayed over 10 commits while 7 messages wait"."""
    rows_behind: int | None = None
    """The most rows that are behind now; None if unknown."""
    next_offset: int | None = None
    """The position; None if the partition has none yet."""
    committed_at: datetime | None = None
    """UTC. The last commit of the position."""


@dataclass(frozen=True, slots=True)
class GroupHealth:
    """The verdict on a group: the worst of its partitions'. A group without partitions is well."""

    partitions: tuple[PartitionHealth, ...]
    """Sorted by partition."""
    verdict: Verdict
    """The worst one. Partitions that cannot be judged count only if there are no others."""

    @classmethod
    def of(cls, partitions: Iterable[PartitionHealth]) -> GroupHealth:
        """The verdict on the group of these partitions."""
        found = tuple(sorted(partitions, key=lambda one: one.partition))
        return cls(found, max({one.verdict for one in found}, key=lambda one: one.severity, default=Verdict.OK))

    @property
    def unjudged(self) -> tuple[PartitionKey, ...]:
        """The partitions that cannot be judged."""
        return tuple(one.partition for one in self.partitions if one.verdict is Verdict.UNKNOWN)

    @property
    def rows_behind(self) -> int | None:
        """The most rows that a partition is behind, the largest of all; None if none is known. Partitions of one store
        share its index, so their sum would count rows twice."""
        return max((one.rows_behind for one in self.partitions if one.rows_behind is not None), default=None)


def judge(
    partition: PartitionKey,
    past: Sequence[PastPosition],
    unread: Unread | None,
    now: datetime,
    *,
    window: int = WINDOW,
    max_silence: timedelta | None = None,
) -> PartitionHealth:
    """The verdict on a partition by its last commits `past`, the oldest first, and what is left to read now.

    `unread` is None if its broker did not tell. Only the last `window` (2 or more) commits count. `max_silence` None
    means as long as the window's commits took without their longest pause, but at least `MIN_SILENCE`.
    """
    if window < 2:
        raise ValueError(f"a window of {window} commits shows no movement; use 2 or more")
    seen = past[-window:]
    if not seen:
        return PartitionHealth(
            partition, Verdict.UNKNOWN, "the group has no position in it yet", unread and unread.rows
        )
    last = seen[-1]
    if unread is None:
        verdict, why = Verdict.UNKNOWN, "its broker does not tell where its messages end"
    elif unread.lost_rows and now - last.at > _CLOCK_DIFFERENCE:
        verdict, why = (
            Verdict.STOP,
            (
                f"position {last.next_offset} is {_messages(unread.lost_rows)} beyond the last message that its broker "
                "has: the topic was made anew, or the broker lost its newest messages"
            ),
        )
    elif unread.rows == 0:
        verdict, why = Verdict.OK, "nothing to read"
    else:
        limit = _usual_silence(seen) if max_silence is None else max_silence
        verdict, why = _silent(seen, unread, now, limit) or _moves(seen, unread, window)
    return PartitionHealth(partition, verdict, why, unread and unread.rows, last.next_offset, last.at)


def _usual_silence(seen: Sequence[PastPosition]) -> timedelta:
    """How long the group may be silent. One pause among others does not count: an outage, a night without messages, or
    a clock that was wrong at one commit."""
    pauses = sorted(max(timedelta(0), later.at - earlier.at) for earlier, later in pairwise(seen))
    return max(MIN_SILENCE, sum(pauses[:-1] if len(pauses) > 2 else pauses, timedelta(0)))


def _silent(
    seen: Sequence[PastPosition], unread: Unread, now: datetime, limit: timedelta
) -> tuple[Verdict, str] | None:
    """The verdict on a group that should have committed meanwhile; None if it still has time."""
    last = seen[-1]
    came = None if unread.since is None or unread.since - now > _CLOCK_DIFFERENCE else unread.since
    if now - last.at <= limit:
        return None
    if came is None and not last.rows_behind:
        ahead = (
            f": the oldest has a time {_span(unread.since - now)} ahead of this machine's clock; is time-zone"
            " the zone of the producers' clocks?"
            if unread.since is not None
            else ""
        )
        return Verdict.UNKNOWN, (
            f"the group has not committed for {_span(now - last.at)}, and it is unknown since when "
            f"{_waiting(unread.rows)}{ahead}"
        )
    since = last.at if came is None else max(last.at, came)
    if now - since <= limit:
        return None
    return Verdict.STOP, f"no commit for {_span(now - since)} while {_waiting(unread.rows)}"


def _moves(seen: Sequence[PastPosition], unread: Unread, window: int) -> tuple[Verdict, str]:
    """The verdict by how position and lag moved."""
    last, furthest = seen[-1].next_offset, max(one.next_offset for one in seen)
    if last < furthest:
        return Verdict.REWIND, f"position {last} is before {furthest}, where it was"
    lags = [one.rows_behind for one in seen if one.rows_behind is not None]
    if len(seen) < window or 2 * len(lags) < window or 0 in lags:
        return Verdict.OK, f"{_messages(unread.rows)} to read"  # there is too little, or it caught up within the window
    if all(one.next_offset == last for one in seen):
        return Verdict.STALL, f"position {last} stayed over {window} commits while {_waiting(lags[-1])}"
    if lags[-1] > lags[0] and all(later >= earlier for earlier, later in pairwise(lags)):
        return Verdict.WARN, f"the lag never fell over {window} commits: from {lags[0]:,} to {_messages(lags[-1])}"
    return Verdict.OK, f"{_messages(unread.rows)} to read, and the group keeps pace"


def _messages(number: int) -> str:
    return f"{number:,} message{'' if number == 1 else 's'}"


def _waiting(number: int) -> str:
    return f"{_messages(number)} wait{'s' if number == 1 else ''}"


def _span(length: timedelta) -> str:
    """A length of time for people: 45 s, 12 min, 3.5 h, 2.1 days."""
    seconds = length.total_seconds()
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86_400:.1f} days"


_STATES_PER_COMMIT: Final = 3
"""How many of the group's commits to look at for each one that is wanted: consumers that share a run
write a partition's row only when it moves."""


@dataclass(frozen=True, slots=True)
class GroupPast:
    """The last positions of a group's newest run."""

    group: GroupKey
    """With the topics of the run that wrote last. Runs of other topics are over: a newer run fences them."""

    positions: Mapping[PartitionKey, tuple[PastPosition, ...]]
    """By partition, the oldest first; () for a partition whose broker was down whenever the group was read."""


def past_of(states: Iterable[Sequence[Row]], limit: int) -> GroupPast | None:
    """The last positions, at most `limit` for each partition, from a group's rows after its commits, newest first.

    Takes no more of `states` than it needs. None if the group has no rows.
    """
    found: dict[PartitionKey, list[Row]] = {}
    key: GroupKey | None = None
    for number, rows in enumerate(states, start=1):
        if key is None:
            newest = newest_run(rows)
            if newest is None:
                return None
            key = GroupKey.of(newest.consumer_group, newest.topic_set)
            found = {partition: [] for partition in places_of(row for row in rows if row.belongs_to(key))}
            found |= {partition: [] for partition in _rows_of(key, rows)}
        for partition, row in _rows_of(key, rows).items():
            taken = found.get(partition)
            # A row that a later commit did not write is one observation. So is one that got its node added later.
            if taken is not None and len(taken) < limit and not (taken and taken[-1].updated_at == row.updated_at):
                taken.append(row)
        if all(len(taken) >= limit for taken in found.values()) or number >= _STATES_PER_COMMIT * limit:
            break
    if key is None:
        return None
    return GroupPast(
        key,
        {
            partition: tuple(PastPosition(row.updated_at, row.next_offset, row.end_offset) for row in reversed(taken))
            for partition, taken in sorted(found.items())
        },
    )


def _rows_of(key: GroupKey, rows: Sequence[Row]) -> dict[PartitionKey, Row]:
    """The row of each partition that has an offset: its position, or where a query that has completed no batch yet
    began."""
    found: dict[PartitionKey, Row] = {}
    for row in rows:
        known = found.get(row.partition)
        begun = row.belongs_to(key) and row.kind != WAITING and row.topic and row.next_offset >= 0
        if begun and (known is None or row.sequence > known.sequence):
            found[row.partition] = row
    return found
