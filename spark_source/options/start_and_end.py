"""Where a read begins, and where a batch read ends."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

from spark_source.offsets.offset_spec import OffsetSpec
from spark_source.offsets.timestamps import check_order, parse_timestamp
from spark_source.options.option import option, optional
from tubeclient.errors import ConfigurationError

__all__ = ["PlaceRules", "StartAndEnd"]


class PlaceRules(NamedTuple):
    """The options, besides an OffsetSpec itself, that decide which offsets it stands for."""

    consumer_group: str
    """The group whose position `group` means."""
    time_zone: str
    """Of the producers' clocks."""
    fail_on_data_loss: bool
    """Whether a spec must not name partitions that are gone."""

    def question(self, spec: OffsetSpec) -> str:
        """Identifies `spec` and the rules that decide its offsets."""
        return f"{spec.text} {self.time_zone}" if spec.by_time else spec.text


@dataclass(frozen=True, kw_only=True)
class StartAndEnd:
    """Where a read begins and ends, by offset or by time."""

    starting: OffsetSpec | None = optional(
        "startingOffsets",
        partial(OffsetSpec.parse, option="startingOffsets"),
        None,
        "`latest`; for a batch read `earliest`",
        "Where a new query begins: `earliest`, `latest`, `group` (the offsets table first, then the group's position "
        "on the brokers; an error in a topic without either, while `group:earliest` and `group:latest` begin there), "
        'or JSON from partition keys to offsets with a `"default"` entry for all others; -2 means earliest, -1 '
        "latest. A query with a checkpoint continues from the checkpoint. "
        "Partitions that appear later are read from their beginning. So are partitions that JSON does not name, if it "
        "names offsets in their topic and its default is `latest`. A batch read must not start at `latest`.",
    )
    starting_timestamp: OffsetSpec | None = optional(
        "startingTimestamp",
        partial(parse_timestamp, option="startingTimestamp"),
        None,
        "",
        "Begin each partition at its first message of this minute or later, by the time that producers write on "
        "messages: milliseconds since 1970. A partition without one begins with the next message. Overrides "
        "`startingOffsets`.",
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
        if self.end.uses("earliest") or self.end.by_group:
            raise ConfigurationError("endingOffsets must be latest or offsets; earliest (-2) and group are not allowed")
        check_order(self.start_of("batch"), self.end)
