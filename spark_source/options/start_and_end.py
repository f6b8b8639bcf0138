"""Where a read begins, and where a batch read ends."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

from spark_source.offsets.offset_spec import GroupFallback, OffsetSpec
from spark_source.offsets.timestamps import Unmatched, check_order, parse_timestamp, parse_timestamps
from spark_source.options import parsers as to
from spark_source.options.option import option, optional
from tubeclient.errors import ConfigurationError

__all__ = ["PlaceRules", "StartAndEnd"]


class PlaceRules(NamedTuple):
    """What decides, beside an OffsetSpec itself, which offsets it stands for."""

    consumer_group: str
    """Whose position `group` is."""
    time_zone: str
    """Of the producers' clocks."""
    unmatched: Unmatched
    fallback: GroupFallback
    fail_on_data_loss: bool
    """Whether a spec may not name partitions that are gone."""

    def question(self, spec: OffsetSpec) -> str:
        """One text for `spec` and the rules that decide what offsets it stands for."""
        deciding = [self.fallback] * spec.uses("group") + [self.time_zone, self.unmatched] * spec.by_time
        return " ".join([spec.text, *deciding])


@dataclass(frozen=True, kw_only=True)
class StartAndEnd:
    """Where a read begins and ends, by offset or by time."""

    starting: OffsetSpec | None = optional(
        "startingOffsets",
        partial(OffsetSpec.parse, option="startingOffsets"),
        None,
        "`latest`; for a batch read `earliest`",
        "Where a new query begins: `earliest`, `latest`, `group` (the offsets table first, then the group's "
        'position on the brokers, then `groupFallback`), or JSON from partition keys to offsets with a `"default"` '
        "entry for all others; -2 stands for earliest, -1 for latest. A query with a checkpoint goes on from "
        "there. Partitions that appear later are read from their beginning; so are those that JSON does not name in a "
        "topic in which it names offsets, where the default is `latest`. A batch read may not start at `latest`.",
    )
    group_fallback: GroupFallback = option(
        "groupFallback",
        to.choice("earliest", "latest", "error"),
        "error",
        "Where `group` begins in a topic in which the group has no position yet: `earliest`, `latest`, or "
        "`error`, which ends the query and names the partitions.",
    )
    starting_timestamp: OffsetSpec | None = optional(
        "startingTimestamp",
        partial(parse_timestamp, option="startingTimestamp"),
        None,
        "",
        "Begin each partition at its first message of this minute or later, by the time that producers write on "
        "messages: milliseconds since 1970. Goes before `startingOffsetsByTimestamp`, and that before "
        "`startingOffsets`.",
    )
    starting_by_timestamp: OffsetSpec | None = optional(
        "startingOffsetsByTimestamp",
        partial(parse_timestamps, option="startingOffsetsByTimestamp"),
        None,
        "",
        'The same for single partitions: JSON from partition keys to milliseconds since 1970, with a `"default"` '
        "entry for all others.",
    )
    unmatched: Unmatched = option(
        "startingOffsetsByTimestampStrategy",
        to.choice("error", "latest"),
        "error",
        "Where a partition begins that has no message of the starting minute or later: `error` ends the query, "
        "`latest` begins with what comes next.",
    )
    ending: OffsetSpec = option(
        "endingOffsets",
        partial(OffsetSpec.parse, option="endingOffsets"),
        "latest",
        "Where a batch read ends: `latest`, or JSON as for `startingOffsets` (-1 for latest; -2 is not allowed).",
        only="batch",
    )
    ending_timestamp: OffsetSpec | None = optional(
        "endingTimestamp",
        partial(parse_timestamp, option="endingTimestamp"),
        None,
        "",
        "End each partition before its first message of this minute or later, at the latest offset where there is "
        "none. Goes before `endingOffsetsByTimestamp`, and that before `endingOffsets`.",
        only="batch",
    )
    ending_by_timestamp: OffsetSpec | None = optional(
        "endingOffsetsByTimestamp",
        partial(parse_timestamps, option="endingOffsetsByTimestamp"),
        None,
        "",
        "The same for single partitions, written as `startingOffsetsByTimestamp`.",
        only="batch",
    )

    def start_of(self, read: Literal["stream", "batch"]) -> OffsetSpec:
        """Where a read begins, its own default included."""
        default = OffsetSpec("startingOffsets", "latest" if read == "stream" else "earliest")
        return self.starting_timestamp or self.starting_by_timestamp or self.starting or default

    @property
    def end(self) -> OffsetSpec:
        """Where a batch read ends."""
        return self.ending_timestamp or self.ending_by_timestamp or self.ending

    def check_ends(self) -> None:
        """Raise ConfigurationError where a batch read would begin or end at a place that makes no sense there."""
        if self.start_of("batch").uses("latest"):
            raise ConfigurationError(
                "startingOffsets may not be latest in a batch read: it would read nothing; use earliest"
            )
        if self.end.uses("earliest") or self.end.uses("group"):
            raise ConfigurationError(
                "endingOffsets may only be latest, or offsets; earliest (-2) and group are no ends"
            )
        check_order(self.start_of("batch"), self.end)
