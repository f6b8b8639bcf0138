"""The time that producers write on a message: yyyyMMddHHmm on their own clock, without a zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

__all__ = ["MINUTE_MS", "message_time_ms"]

MINUTE_MS = 60_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def message_time_ms(text: str, zone: tzinfo) -> int | None:
    """Return milliseconds since 1970 for yyyyMMddHHmm on a clock of `zone`; None for what is no such text."""
    if len(text) != 12 or not text.isdecimal():
        return None
    month, day, hour, minute = (int(text[at : at + 2]) for at in (4, 6, 8, 10))
    try:
        moment = datetime(int(text[:4]), month, day, hour, minute, tzinfo=zone)
    except ValueError:
        return None
    return (moment - _EPOCH) // _MILLISECOND
