"""Times as users give them: yyyyMMddHHmm, which producers write on messages by their own clock, and moments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from operator import index
from zoneinfo import ZoneInfo

from tubeclient.errors import ConfigurationError

MINUTE_MS = 60_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def message_time_ms(text: str, zone: tzinfo) -> int | None:
    """Return milliseconds since 1970 for yyyyMMddHHmm in `zone`; None for any other text."""
    if len(text) != 12 or not text.isdecimal():
        return None
    month, day, hour, minute = (int(text[at : at + 2]) for at in (4, 6, 8, 10))
    try:
        moment = datetime(int(text[:4]), month, day, hour, minute, tzinfo=zone)
    except ValueError:
        return None
    return (moment - _EPOCH) // _MILLISECOND


@lru_cache(256)  # messages of one minute have one text
def _is_time(text: str) -> bool:
    return text.isascii() and message_time_ms(text, UTC) is not None


def message_time_text(time: str | datetime) -> str:
    """Return yyyyMMddHHmm for such a text or a datetime; "" (no time) for "". ConfigurationError for everything else:
    brokers would accept it, and no reader could parse the time."""
    if isinstance(time, datetime):
        return f"{time.year:04}{time:%m%d%H%M}"
    if isinstance(time, str) and (not time or _is_time(time)):
        return time
    raise ConfigurationError(
        f'the time of a message must be text like 202601311259 (yyyyMMddHHmm), "" for none, or a datetime; not {time!r}'
    )


def moment_ms(moment: int | datetime, what: str) -> int:
    """Milliseconds since 1970 of such a number, or of a datetime with a zone. ConfigurationError, which begins with
    `what`, for one without, and for anything else."""
    if isinstance(moment, datetime):
        if moment.utcoffset() is None:
            raise ConfigurationError(
                f"{what} is {moment!r} without a time zone; add one, as in datetime(2026, 11, 21, 10, 31, "
                "tzinfo=ZoneInfo('Asia/Shanghai'))"
            )
        return (moment - _EPOCH) // _MILLISECOND
    try:
        return index(moment)
    except TypeError:
        raise ConfigurationError(f"{what} must be a datetime with a zone, or a whole number; not {moment!r}") from None


def zone_named(name: str) -> ZoneInfo:
    """The zone of that name in this machine's IANA database; ConfigurationError if there is none."""
    try:
        return ZoneInfo(name.strip())
    except (ValueError, KeyError, OSError) as error:
        raise ConfigurationError(
            f"{name!r} is not a time zone; give a name of the IANA database, such as UTC or Asia/Shanghai"
        ) from error
