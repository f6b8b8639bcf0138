"""Where a read begins, and where a batch read ends."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

from spark_source.offsets.offset_spec import GroupFallback, OffsetSpec
from spark_source.offsets.timestamps import Unmatched, check_order, parse_timestamp
from spark_source.options import parsers as to
from spark_source.options.option import option, optional
from tubeclient.errors import ConfigurationError

__all__ = ["PlaceRules", "StartAndEnd"]


class PlaceRules(NamedTuple):
    """The options, besides an OffsetSpec itself, that decide which offsets it stands for."""

    consumer_group: str
    """The group whose position `group` means."""
    time_zone: str
    """Of the producers' clocks."""
    unmatched: Unmatched
    fallback: GroupFallback
    fail_on_data_loss: bool
    """Whether a spec must not name partitions that are gone."""

    def question(self, spec: OffsetSpec) -> str:
        """Identifies `spec` and the rules that decide its offsets."""
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
        "entry for all others; -2 means earliest, -1 latest. A query with a checkpoint continues from the checkpoint. "
        "Partitions that appear later are read from their beginning. So are partitions that JSON does not name, if it "
        "names offsets in their topic and its default is `latest`. A batch read must not start at `latest`.",
    )
    group_fallback: GroupFallback = option(
        "groupFallback",
        to.choice("earliest", "latest", "error"),
        "error",
        "Where `group` begins in a topic without a position of the group: `earliest`, `latest`, or `error`, which ends "
        "the query and names the partitions.",
    )
    starting_timestamp: OffsetSpec | None = optional(
        "startingTimestamp",
        partial(parse_timestamp, option="startingTimestamp"),
        None,
        "",
        "Begin each partition at its first message of this minute or later, by the time that producers write on "
        "messages: milliseconds since 1970. Overrides `startingOffsets`.",
    )
    unmatched: Unmatched = option(
        "startingOffsetsByTimestampStrategy",
        to.choice("error", "latest"),
        "error",
        "Where a partition without a message of the starting minute or later begins: `error` ends the query, "
        "`latest` begins with the next message.",
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
        "End each partition before its first message of this minute or later, or at the latest offset if there is "
        "none. Overrides `endingOffsets`.",
        only="batch",
    )

    def start_of(self, read: Literal["stream", "batch"]) -> OffsetSpec:
        """Where a read begins, with the default of its kind."""
        default = OffsetSpec("startingOffsets", "latest" if read == "stream" else "earliest")
        return self.starting_timestamp or self.starting or default

    @property
    def end(self) -> OffsetSpec:
        """Where a batch read ends."""
        return self.ending_timestamp or self.ending

    def check_ends(self) -> None:
        """Raise ConfigurationError for a start or an end that makes no sense in a batch read."""
        if self.start_of("batch").uses("latest"):
            raise ConfigurationError(
                "startingOffsets must not be latest in a batch read, which would read nothing; use earliest"
            )
        if self.end.uses("earliest") or self.end.uses("group"):
            raise ConfigurationError("endingOffsets must be latest or offsets; earliest (-2) and group are not allowed")
        check_order(self.start_of("batch"), self.end)
