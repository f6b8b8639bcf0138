"""Where a group is to be reset to: what the command line says, and of which set of topics it speaks. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from offsets_store import GroupKey, GroupProgress
from spark_source.offsets.offset_spec import Moment, OffsetSpec
from tubeclient.errors import ConfigurationError
from tubeclient.time_zones import zone_named
from tubeclient_cli.common.moment import moment_ms

__all__ = ["Commit", "OtherGroup", "Places", "Target", "choose_key", "parse_target"]

_TO: Final = "--to"


@dataclass(frozen=True, slots=True)
class Commit:
    """Where the group stood after its commit of this number."""

    sequence: int


@dataclass(frozen=True, slots=True)
class OtherGroup:
    """Where another group stands."""

    name: str


@dataclass(frozen=True, slots=True)
class Places:
    """Places as options of the source name them; partitions that are not named stay."""

    spec: OffsetSpec
    time_zone: str
    """Of the clocks that wrote the messages' times; an IANA name."""


Target = Commit | OtherGroup | Places


def parse_target(text: str, time_zone: str = "UTC") -> Target:
    """Read the value of --to; ConfigurationError says what is wrong with it."""
    word, colon, rest = text.strip().partition(":")
    if colon and word == "batch":
        if not (rest.isascii() and rest.isdecimal() and int(rest) > 0):
            raise ConfigurationError(
                f"{_TO} is {text!r}; write batch: and a commit's number from 1 on, as `history` shows it"
            )
        return Commit(int(rest))
    if colon and word == "group":
        if not rest.strip():
            raise ConfigurationError(f"{_TO} is {text!r}; write the other group's name behind the colon")
        return OtherGroup(rest.strip())
    if text.strip().startswith("{") or text.strip().lower() in ("earliest", "latest"):
        return Places(OffsetSpec.parse(text, _TO), zone_named(time_zone).key)
    zone = zone_named(time_zone)
    timestamp_ms = moment_ms(text, _TO, zone)
    if timestamp_ms is None:
        raise ConfigurationError(
            f"{_TO} is {text!r}; write earliest, latest, a time as 2026-11-21T10:31Z, batch:N, group:NAME, or JSON "
            'from partition keys to offsets, as in {"1:clicks:0": 2800}'
        )
    return Places(OffsetSpec(_TO, Moment(timestamp_ms)), zone.key)


def choose_key(
    kept: Sequence[GroupProgress], consumer_group: str, topics: Sequence[str], pattern: str | None
) -> GroupKey:
    """Return the one set of topics that is meant: the one that is named, else the only one that the table has."""
    if topics and pattern is not None:
        raise ConfigurationError("give --topic or --topic-pattern, not both")
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigurationError(f"--topic-pattern is {pattern!r}, no regular expression: {error}") from None
        return GroupKey(consumer_group, pattern=pattern)
    if topics:
        try:
            return GroupKey(consumer_group, topics)
        except ValueError as error:
            raise ConfigurationError(f"--topic: {error}") from None
    if len(kept) == 1:
        return kept[0].group
    if not kept:
        raise ConfigurationError(
            f"the offsets table has nothing of group {consumer_group}; check both names, or say with --topic which "
            "topics the group is to read"
        )
    sets = "; ".join(progress.group.topic_set for progress in kept)
    raise ConfigurationError(
        f"group {consumer_group} has {len(kept)} sets of topics, {sets}; say with --topic or --topic-pattern which one "
        "is to be reset"
    )
