"""Whether the counts of each stream and hour add up: pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

__all__ = ["ALL_STREAMS", "HOUR", "Hour", "Line", "State", "by_hour", "judged"]

HOUR: Final = timedelta(hours=1)
ALL_STREAMS: Final = "*"
"""How Audit names all streams of a group, and lines name those that the counts table lacks."""


class State(StrEnum):
    """What a line says."""

    COMPLETE = "complete"
    """All arrived, and each record was written or is bad."""
    OPEN = "open"
    """Some are not there, and the job may not have read all of this hour yet."""
    FIRST = "first"
    """Some are not there, and the job's first round is in this hour or a later one: it may have begun after them."""
    MISSING = "missing"
    """Some are not there."""
    UNBALANCED = "unbalanced"
    """Received are not as many as written and bad together."""

    @property
    def is_well(self) -> bool:
        return self not in (State.MISSING, State.UNBALANCED)


class Hour(NamedTuple):
    """A stream's counts in the counts table, of one hour of data time; None for records without stream or time."""

    stream: str | None
    hour: datetime | None
    received: int
    written: int
    bad: int


class Line(NamedTuple):
    """An hour with what Audit says that DataProxy sent. `sent` and `missing` are None where Audit was not asked."""

    stream: str | None
    hour: datetime | None
    sent: int | None
    received: int
    written: int
    bad: int
    missing: int | None
    state: State


def by_hour(minutes: Mapping[datetime, int]) -> dict[datetime, int]:
    """Counts by minute, summed by hour. Times are in UTC."""
    found: dict[datetime, int] = {}
    for minute, count in minutes.items():
        hour = minute.replace(minute=0, second=0, microsecond=0)
        found[hour] = found.get(hour, 0) + count
    return found


def judged(
    hours: Sequence[Hour],
    sent: Mapping[str, Mapping[datetime, int]] | None,
    first_round_to: datetime | None,
    newest: datetime | None,
) -> list[Line]:
    """The lines, in order. `sent` are Audit's counts by stream and hour, with those of `ALL_STREAMS` if it was asked;
    the times are those of `Counts`.

    An hour is open until the job has read a record whose data time is an hour past its end.
    """
    table = {(one.stream, one.hour): one for one in hours}
    wanted = dict(sent or {})
    if ALL_STREAMS in wanted:
        # Less is no harm: of all streams, Audit sees but those of a minute's highest version.
        streams = [of for name, of in wanted.items() if name != ALL_STREAMS]
        rest = {hour: count - sum(of.get(hour, 0) for of in streams) for hour, count in wanted[ALL_STREAMS].items()}
        wanted[ALL_STREAMS] = {hour: count for hour, count in rest.items() if count > 0}
    keys = {*table, *((stream, hour) for stream, of in wanted.items() for hour, count in of.items() if count)}
    lines = []
    for stream, hour in sorted(keys, key=lambda key: (key[0] or "", key[1] is not None, str(key[1]))):
        of = table.get((stream, hour), Hour(stream, hour, 0, 0, 0))
        told = None if sent is None or stream is None or hour is None else wanted.get(stream, {}).get(hour, 0)
        missing = None if told is None else max(0, told - of.received)
        state = State.COMPLETE
        if of.received != of.written + of.bad:
            state = State.UNBALANCED
        elif missing and hour is not None:
            state = State.MISSING
            if newest is None or newest < hour + 2 * HOUR:
                state = State.OPEN
            elif first_round_to is not None and hour <= first_round_to:
                state = State.FIRST
        lines.append(Line(stream, hour, told, of.received, of.written, of.bad, missing, state))
    return lines
