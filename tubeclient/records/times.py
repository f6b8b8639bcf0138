"""Dates and times in texts: ISO 8601 as databases and programs write it, and patterns of Java's letters.

A reader takes a text and gives days, or microseconds, since 1970. It raises `NotATime` for a text that is none, and
`FarYear` for a time that is not of the years 1 to 9999 in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

from tubeclient.errors import ConfigurationError
from tubeclient.wire.message_time import zone_named

Token: TypeAlias = str | tuple[str, int, int]
"""Of a pattern: a literal; or a letter, with the least and the most characters that its field takes."""
Reader: TypeAlias = Callable[[str], int]


class NotATime(ValueError):
    """A text that is no time, or not one of the pattern."""


class FarYear(ValueError):
    """A time that other programs cannot read in a Delta table."""


DAYS_OF_1970: Final = date(1970, 1, 1).toordinal()
SECONDS: Final = (-62_135_596_800, 253_402_300_799)
"""The first and the last of the years 1 to 9999."""
_MICROS: Final = 1_000_000

_ZONE: Final = r"Z|[+-]\d\d(?::?\d\d|:\d\d:\d\d)?|[A-Za-z][A-Za-z0-9_+/-]{0,63}"
_DATE: Final = r"(?P<y>\d{4})-(?P<M>\d{1,2})-(?P<d>\d{1,2})"
_CLOCK: Final = rf"(?P<H>\d{{1,2}}):(?P<m>\d{{1,2}})(?::(?P<s>\d{{1,2}})(?:\.(?P<S>\d+))?)?(?: ?(?P<zone>{_ZONE}))?"
_ISO_DATE: Final = re.compile(_DATE, re.ASCII)
_ISO_TIME: Final = re.compile(f"{_DATE}(?:[ T]{_CLOCK})?", re.ASCII)


class _Parts(NamedTuple):
    """A time as it was written."""

    day: int
    """Since 1970."""
    second: int
    """Of the day."""
    micros: int
    zone: str | None


def date_reader(pattern: str | None) -> Reader:
    """Days since 1970. ConfigurationError: a pattern that is none of a date."""
    if pattern is None:
        form = _ISO_DATE
    else:
        form = _form(pattern, "dateFormat")
        if "zone" in form.groupindex:
            raise ConfigurationError(f"dateFormat is {pattern!r}, which has a zone, but dates have none")

    def read(text: str) -> int:
        parts = _parts(form, text)
        if parts.second or parts.micros:  # a DATE would lose it
            raise NotATime
        return parts.day

    return read


def local_time_reader(pattern: str | None) -> Reader:
    """Microseconds since 1970 of a time without a zone. ConfigurationError: a pattern that is none of such a time."""
    form = _ISO_TIME if pattern is None else _form(pattern, "timestampNTZFormat")
    if pattern is not None and "zone" in form.groupindex:
        raise ConfigurationError(f"timestampNTZFormat is {pattern!r}, which has a zone, but TIMESTAMP_NTZ has none")

    def read(text: str) -> int:
        day, second, micros, zone = _parts(form, text)
        if zone is not None:
            raise NotATime
        return (day * 86_400 + second) * _MICROS + micros

    return read


def moment_reader(pattern: str | None, zone: str) -> Reader:
    """Microseconds since 1970, UTC; `zone` is that of texts without one. ConfigurationError: a pattern that is none of
    a time, or no zone."""
    form = _ISO_TIME if pattern is None else _form(pattern, "timestampFormat")
    own = None if zone == "UTC" else zone_named(zone)

    def read(text: str) -> int:
        day, second, micros, written = _parts(form, text)
        local = day * 86_400 + second
        if written is not None:
            offset = _offset_written(written, local)
        else:
            offset = 0 if own is None else offset_of(own, local)
        second = local - offset
        if not SECONDS[0] <= second <= SECONDS[1]:
            raise FarYear
        return second * _MICROS + micros

    return read


def offset_of(zone: ZoneInfo, local: int) -> int:
    """A zone's offset from UTC at a local time, both in seconds. Of a local time that the clock shows twice, or not at
    all, it is the offset from before the clock was changed: that is what Java, Spark and Python (fold=0) do."""
    day, second = divmod(local, 86_400)
    hour, rest = divmod(second, 3_600)
    minute, second = divmod(rest, 60)
    moment = datetime.combine(date.fromordinal(DAYS_OF_1970 + day), datetime.min.time())
    offset = moment.replace(hour=hour, minute=minute, second=second, tzinfo=zone).utcoffset()
    assert offset is not None
    return offset.days * 86_400 + offset.seconds


def _offset_written(zone: str, local: int) -> int:
    if zone in ("Z", "UTC", "GMT"):
        return 0
    if zone[0] in "+-":
        digits = zone[1:].replace(":", "").ljust(6, "0")
        hours, minutes, seconds = (int(digits[at : at + 2]) for at in (0, 2, 4))
        size = hours * 3_600 + minutes * 60 + seconds
        if minutes > 59 or seconds > 59 or size > 18 * 3_600:
            raise NotATime
        return -size if zone[0] == "-" else size
    named = _zone(zone)
    if named is None:
        raise NotATime
    return offset_of(named, local)


@lru_cache(1_000)
def _zone(name: str) -> ZoneInfo | None:
    """The zone of that name, which is any text of a record."""
    if name.split("/")[0] in ("localtime", "posixrules", "posix", "right"):
        return None  # files beside the IANA database's zones, of this machine or with leap seconds
    try:
        return zone_named(name)
    except ConfigurationError:
        return None


def _parts(form: re.Pattern[str], text: str) -> _Parts:
    found = form.fullmatch(text)
    if found is None:
        raise NotATime
    given = found.groupdict()
    year, month, day = int(given.get("y") or 1970), int(given.get("M") or 1), int(given.get("d") or 1)
    if (written := given.get("yy")) is not None:
        year = 2000 + int(written)
    hour, minute, second = int(given.get("H") or 0), int(given.get("m") or 0), int(given.get("s") or 0)
    if (half := given.get("h")) is not None:
        if not 1 <= int(half) <= 12:
            raise NotATime
        hour = int(half) % 12 + (12 if (given.get("a") or "AM").upper() == "PM" else 0)
    if hour > 23 or minute > 59 or second > 59:
        raise NotATime
    try:
        ordinal = date(year or 4, month, day).toordinal()  # the year 0 is a leap year
    except ValueError:
        raise NotATime from None
    if year == 0:
        raise FarYear
    fraction = given.get("S") or ""
    micros = int(fraction[:6].ljust(6, "0")) if fraction else 0
    return _Parts(ordinal - DAYS_OF_1970, hour * 3_600 + minute * 60 + second, micros, given.get("zone"))


_WIDTHS: Final = {
    "y": {1: (1, 4), 2: (2, 2), 3: (3, 4), 4: (4, 4)},
    **{letter: {1: (1, 2), 2: (2, 2)} for letter in "MdHhms"},
    "S": {count: (1, count) for count in range(1, 10)},
    "a": {1: (2, 2)},
    **{letter: dict.fromkeys(range(1, 6), (1, 64)) for letter in "XxZV"},
}
"""By letter and count: the least and the most characters that a field takes."""
_PIECE: Final = re.compile(r"([A-Za-z])\1*|'((?:[^']|'')*)'|(.)", re.DOTALL)


def tokens_of(pattern: str, option: str) -> list[Token]:
    """A pattern of Java's: y M d H h a m s S, and X x Z V for any zone; other letters in quotes. "[" and "]" are around
    what may be missing, as literals of that one character. ConfigurationError, which names `option`: anything else."""
    tokens: list[Token] = []
    seen: set[str] = set()
    depth = 0

    def wrong(what: str) -> ConfigurationError:
        return ConfigurationError(
            f"{option} is {pattern!r}: {what}. Patterns use y M d H h a m s S, X x Z V for a zone, [ and ] around "
            "optional parts, and quotes around other letters"
        )

    for found in _PIECE.finditer(pattern):
        letter, quoted, other = found.groups()
        if letter is not None:
            widths = _WIDTHS.get(letter, {}).get(len(found[0]))
            if widths is None:
                raise wrong(f"it has {found[0]}")
            kind = "X" if letter in "XxZV" else letter
            if kind in seen:
                raise wrong(f"it has {letter} twice")
            seen.add(kind)
            tokens.append((kind, *widths))
        elif quoted is not None:
            tokens.append(quoted.replace("''", "'") or "'")
        elif other in "{}#'":
            raise wrong(f"it has {other}")
        else:
            depth += (other == "[") - (other == "]")
            if depth < 0:
                break
            tokens.append(_BRACKETS.get(other, other))
    if depth:
        raise wrong("it has a bracket without the other one")
    if ("a" in seen and "h" not in seen) or {"h", "H"} <= seen:
        raise wrong("a belongs to h, and H needs neither")
    return tokens


_OPTIONAL, _END = "\0[", "\0]"
"""In tokens, around what may be missing. No literal is like them: U+0000 is none."""
_BRACKETS: Final = {"[": _OPTIONAL, "]": _END}


def _form(pattern: str, option: str) -> re.Pattern[str]:
    """The regular expression of a pattern, with a group for each field."""
    if "\0" in pattern:
        raise ConfigurationError(f"{option} has a character U+0000")
    form = ""
    for token in tokens_of(pattern, option):
        if isinstance(token, str):
            form += {_OPTIONAL: "(?:", _END: ")?"}.get(token) or re.escape(token)
            continue
        letter, least, most = token
        if letter == "X":
            form += f"(?P<zone>{_ZONE})"
        elif letter == "a":
            form += "(?P<a>[AaPp][Mm])"
        elif letter == "y" and most == 2:
            form += r"(?P<yy>\d\d)"
        else:
            form += rf"(?P<{letter}>\d{{{least},{most}}})"
    return re.compile(form, re.ASCII)


def tokens_for_core(pattern: str, option: str) -> list[Token]:
    """The pattern's tokens, if it has digits and literals only. The tokens for another one fit no text in the core,
    which knows no X; so the plain code reads such times."""
    tokens = tokens_of(pattern, option)
    return tokens if all(map(_is_plain, tokens)) else [("X", 1, 1)]


def _is_plain(token: Token) -> bool:
    if isinstance(token, str):
        return token not in (_OPTIONAL, _END)
    letter, _, most = token
    return letter in "MdHmsS" or (letter == "y" and most == 4)
