"""From an option's text to its value. Each parser raises ValueError with the rest of the sentence "<option> ..."."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from typing import Final, TypeVar

from spark_source.offsets.offset_spec import json_object
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey
from tubeclient.names import checked_filters, group_name, tag_name, topic_name, topic_pattern, why_no_group
from tubeclient.printable import display_uri
from tubeclient.settings import parse_master_servers
from tubeclient.wire.message_time import zone_named

T = TypeVar("T")
U = TypeVar("U")
Word = TypeVar("Word", bound=str)

ALL_TOPICS: Final = ""
"""In filters: the topics without tags of their own."""

_DURATION = re.compile(r"(\d+)\s*([a-z]+)", re.IGNORECASE)
_UNITS_MS: Final = {
    unit: ms
    for units, ms in (
        ("ms millisecond milliseconds", 1),
        ("s sec second seconds", 1_000),
        ("m min minute minutes", 60_000),
        ("h hour hours", 3_600_000),
        ("d day days", 86_400_000),
    )
    for unit in units.split()
}
_MOST_DAYS: Final = 36_500
"""Of a length of time: far more would be before the first date, or after the last one."""


def text(value: str) -> str:
    """Any text that is not blank."""
    if not value.strip():
        raise ValueError("is blank; leave it out or give it a value")
    return value.strip()


def file(value: str) -> str:
    """The path of a file; see AccessOptions.check_files."""
    return text(value)


def password(value: str) -> str:
    """Any text, including surrounding blanks."""
    if not value:
        raise ValueError("is empty")
    return value


def user(value: str) -> str:
    """A user's name."""
    if not re.fullmatch(r"\S+", value.strip()):
        raise ValueError(f"is {value!r}; a user's name has no blanks")
    return value.strip()


def folder(value: str) -> str:
    """A path or URI. What has no slash may be meant as a table's name, and would make a folder of that name."""
    name = value.strip()
    if not name:
        raise ValueError("is blank; name a folder")
    if "/" not in name:
        raise ValueError(
            f"is {name!r}, without a slash. For a folder write ./{name} or its full path. A table cannot be given "
            f"by name; for a table {name} give its folder, which DESCRIBE DETAIL {name} shows as its location"
        )
    return name


def table(value: str) -> str:
    """A table's path or URI, or its name with its schema. A word alone may be meant as either."""
    name = value.strip()
    if display_uri(name) != name:
        raise ValueError(
            "contains a password or a query, which errors and plans would show; write the bare URI, and set up "
            "access in Spark's configuration"
        )
    if "/" in name or "." in name.strip("."):
        return name
    if not name:
        raise ValueError("is blank; name a table, as schema.table, or its folder")
    raise ValueError(f"is {name!r}; for a table of a catalog write default.{name}, for a folder ./{name}")


def location(value: str) -> str:
    """A folder's path or URI without credentials: Spark shows it in plans."""
    bare = folder(value)
    if display_uri(bare) != bare:
        raise ValueError(
            "contains a password or a query, which plans would show; write the bare URI, and set up access with "
            "storageOption.*"
        )
    return bare


def own_group(value: str) -> str:
    """The name of a consumer group, not of a reader group."""
    found = _usable(group_name, value)
    why = why_no_group(found)
    if why is not None:
        raise ValueError(f"is {found}, {why}")
    return found


def topics(value: str) -> tuple[str, ...]:
    """Topic names separated by commas, sorted."""
    return tuple(sorted(_names(topic_name, value)))


def pattern(value: str) -> re.Pattern[str]:
    """A regular expression for whole names of topics."""
    return topic_pattern(text(value))


def topic(value: str) -> str:
    """One topic's name."""
    found = topics(value)
    if len(found) != 1:
        raise ValueError(f"is {value!r}; write one topic, or omit the option and name topics in the column topic")
    return found[0]


def columns(value: str) -> tuple[str, ...]:
    """Names of columns separated by commas, each once, in the given order; which there are depends on other options."""
    names = [name.strip() for name in text(value).split(",")]
    if not all(names):
        raise ValueError(f"is {value!r}; write column names separated by commas, such as value, messageTime")
    return tuple(dict.fromkeys(names))


def boolean(value: str) -> bool:
    """true or false."""
    if value.strip().lower() not in ("true", "false"):
        raise ValueError(f"is {value!r}; write true or false")
    return value.strip().lower() == "true"


def integer(low: int, high: int | None = None) -> Callable[[str], int]:
    """Return a parser of whole numbers from `low` to `high`."""

    def parse(value: str) -> int:
        number = int(value.strip()) if re.fullmatch(r"[+-]?\d{1,30}", value.strip()) else None
        if number is None or number < low or (high is not None and number > high):
            limits = f"from {low} on" if high is None else f"from {low} to {high}"
            raise ValueError(f"is {value!r}; write a whole number {limits}")
        return number

    return parse


def duration_ms(low_ms: int) -> Callable[[str], int]:
    """Return a parser of durations as Spark writes them, "10s" or "15 minutes", to milliseconds from `low_ms` on."""

    def parse(value: str) -> int:
        match = _DURATION.fullmatch(value.strip())
        unit = _UNITS_MS.get(match[2].lower()) if match else None
        if match is None or unit is None:
            raise ValueError(f"is {value!r}; write a number and a unit, such as 500ms, 10s, 15m, 2h")
        found = int(match[1]) * unit
        if not low_ms <= found <= _MOST_DAYS * _UNITS_MS["d"]:
            raise ValueError(f"is {value!r}; the minimum is {low_ms}ms, the maximum {_MOST_DAYS}d")
        return found

    return parse


def moment_ms(text: str, where: str, zone: tzinfo = UTC) -> int | None:
    """Milliseconds since 1970 of a time such as 2026-11-21T10:31Z; None if `text` is not a time.

    `zone` applies to times that name none; `where` is the option's name. ConfigurationError for a time before 1970.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)
    since = aware - datetime(1970, 1, 1, tzinfo=UTC)
    if since.days < 0:
        raise ConfigurationError(f"{where} is {text!r}, which is before 1970; write earliest")
    return since // timedelta(milliseconds=1)


def choice(*words: Word) -> Callable[[str], Word]:
    """Return a parser of one of `words`, ignoring case."""

    def parse(value: str) -> Word:
        for word in words:
            if word == value.strip().lower():
                return word
        raise ValueError(f"is {value!r}; write one of {', '.join(words)}")

    return parse


def servers(value: str, *, tls: bool = False) -> tuple[str, ...]:
    """Addresses "host:port" separated by commas; without a port the master's usual one, 8715, or 8716 over TLS."""
    parse = partial(parse_master_servers, tls=tls, setting="masterServers", user_setting="authUser")
    return _usable(parse, value)


def zone(value: str) -> str:
    """The name of a time zone that this machine knows."""
    return _usable(zone_named, value).key


def partition_keys(value: str) -> tuple[PartitionKey, ...]:
    """A JSON list of partition keys, each once, sorted."""
    try:
        keys = json.loads(value)
    except ValueError:
        keys = None
    if not isinstance(keys, list) or not keys or not all(isinstance(key, str) for key in keys):
        raise ValueError(f'is {value!r}; write a JSON list of partition keys, as in ["1:clicks:0", "1:clicks:1"]')
    return tuple(sorted({PartitionKey.parse(key) for key in keys}))


def filters(value: str) -> Mapping[str, frozenset[str]]:
    """Tags separated by commas, for ALL_TOPICS, or JSON from topics to lists of tags."""
    if not value.lstrip().startswith(("{", "[")):
        return {ALL_TOPICS: frozenset(_names(tag_name, value))}
    entries = json_object(value, "filters")
    if not entries:
        raise ValueError(
            f"is {value!r}; write tags separated by commas, or JSON from topics to lists of tags, as in "
            '{"clicks": ["web", "app"]}'
        )
    for topic, tags in entries.items():
        if not isinstance(tags, list) or not tags:
            raise ValueError(f"has no list of tags for topic {topic!r}; omit a topic to read all of it")
    return _usable(checked_filters, dict(sorted(entries.items())))


def _names(rule: Callable[[str], str], value: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_usable(rule, part) for part in text(value).split(",")))


def _usable(rule: Callable[[T], U], value: T) -> U:
    """The value of the client's own `rule`."""
    try:
        return rule(value)
    except ConfigurationError as error:
        raise ValueError(f"is not usable: {error}") from None
