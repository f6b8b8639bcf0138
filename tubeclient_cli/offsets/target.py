"""Parses the command line of a reset: where to move a group, and which of its topic sets. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from offsets_store import GroupKey, GroupProgress
from spark_source.offsets.offset_spec import OffsetSpec
from tubeclient.errors import ConfigurationError
from tubeclient.keys import is_plain_number
from tubeclient.wire.message_time import zone_named
from tubeclient_cli.common.places import parse_place

__all__ = ["Commit", "OtherGroup", "Places", "Target", "choose_key", "parse_target"]

_TO: Final = "--to"


@dataclass(frozen=True, slots=True)
class Commit:
    """The group's position after its commit of this number."""

    sequence: int


@dataclass(frozen=True, slots=True)
class OtherGroup:
    """Another group's position."""

    name: str


@dataclass(frozen=True, slots=True)
class Places:
    """Positions as the source's options describe them; partitions that are not named stay."""

    spec: OffsetSpec
    time_zone: str
    """Of the clocks that wrote the messages' times; an IANA name."""


Target = Commit | OtherGroup | Places


def parse_target(text: str, time_zone: str = "UTC") -> Target:
    """Parse the value of --to. Raises ConfigurationError."""
    word, colon, rest = text.strip().partition(":")
    if colon and word == "batch":
        if not (is_plain_number(rest) and int(rest) > 0):
            raise ConfigurationError(
                f"{_TO} is {text!r}; write batch: and a commit's number (1 or higher); `history` lists them"
            )
        return Commit(int(rest))
    if colon and word == "group":
        if not rest.strip():
            raise ConfigurationError(f"{_TO} is {text!r}; write the other group's name after the colon")
        return OtherGroup(rest.strip())
    zone = zone_named(time_zone)
    return Places(parse_place(text, _TO, zone, "batch:N, group:NAME, "), zone.key)


def choose_key(
    kept: Sequence[GroupProgress], consumer_group: str, topics: Sequence[str], pattern: str | None
) -> GroupKey:
    """Return the topic set that is meant: the given one, otherwise the table's only one. Raises ConfigurationError."""
    if topics and pattern is not None:
        raise ConfigurationError("give --topic or --topic-pattern, not both")
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigurationError(f"--topic-pattern {pattern!r} is not a regular expression: {error}") from None
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
            f"the offsets table has nothing of group {consumer_group}; check both names, or name the group's topics "
            "with --topic"
        )
    sets = "; ".join(progress.group.topic_set for progress in kept)
    raise ConfigurationError(
        f"group {consumer_group} has {len(kept)} sets of topics, {sets}; choose one with --topic or --topic-pattern"
    )
