"""Whether the counts of each stream and hour add up: pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

HOUR: Final = timedelta(hours=1)


class Hour(NamedTuple):
    """A stream's counts in the counts table, of one hour of data time in UTC; None for records without one."""

    stream: str
    hour: datetime | None
    received: int = 0
    written: int = 0
    bad: int = 0
    first: int = 0
    """The smallest number of the rounds that counted them."""
    latest: datetime | None = None
    """Their latest minute that is no later than its round."""


def judged(
    hours: Sequence[Hour], sent: Mapping[str, Mapping[datetime, int]] | None, since: datetime
) -> list[dict[str, Any]]:
    """The lines from `since` on, in order. `hours` are all of the table, `sent` are Audit's counts by stream and hour.
    `missing` did not arrive, or were received and are neither written nor bad; `sent` is None if Audit was not asked.

    An hour is at the `edge` until the job has read a record whose data time is an hour past its end, and up to the
    hours of its first round, as it may have begun after them.
    """
    table = {(row.stream, row.hour): row for row in hours}
    began = min((row.first for row in hours), default=0)
    newest = max((row.latest for row in hours if row.latest), default=since)
    oldest = max((row.latest for row in hours if row.latest and row.first == began), default=since)
    keys = {*table, *((stream, hour) for stream, of in (sent or {}).items() for hour, count in of.items() if count)}
    lines = []
    for stream, hour in sorted(keys, key=lambda key: (key[0], str(key[1] or ""))):
        if hour is not None and hour < since:
            continue
        of = table.get((stream, hour), Hour(stream, hour))
        reported = None if sent is None or hour is None else sent.get(stream, {}).get(hour, 0)
        lost, away = max(0, of.received - of.written - of.bad), max(0, (reported or 0) - of.received)
        is_edge = hour is not None and (hour <= oldest or newest < hour + 2 * HOUR)
        state = "edge" if away and is_edge and not lost else "missing" if lost or away else "complete"
        line = {"stream": stream, "hour": hour and hour.isoformat(timespec="minutes"), "sent": reported}
        line |= {"received": of.received, "written": of.written, "bad": of.bad, "missing": lost + away, "state": state}
        lines.append(line)
    return lines
