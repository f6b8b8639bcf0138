"""What to read and as which group, where a read begins, and where a batch read ends."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from spark_source.offsets.offset_spec import OffsetSpec, check_order, parse_timestamp
from spark_source.options import parsers as to
from spark_source.options.option import option, optional, required
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey
from tubeclient.names import reader_groups_of


@dataclass(frozen=True, kw_only=True)
class Subscription:
    """A group and what it reads: topics by name, topics by pattern, or partitions."""

    consumer_group: str = required(
        "consumerGroup",
        to.own_group,
        "The group to read as. A streaming query holds its nodes at the master, so a second query of the group is "
        "refused; a batch read registers nothing under it. Tasks read as the groups `GROUP-r0` to `GROUP-r7`, which "
        "a cluster with authorization must allow, so the name must not end in `-r` and a number.",
    )
    subscribe: tuple[str, ...] = optional(
        "subscribe",
        to.topics,
        (),
        "",
        "Topics, separated by commas. Set exactly one of this, `subscribePattern` and `assign`.",
    )
    subscribe_pattern: re.Pattern[str] | None = optional(
        "subscribePattern",
        to.pattern,
        None,
        "",
        "All topics whose whole name matches this Python regular expression. The master's web port (`masterWebPort`) "
        "lists them every 30 s; topics that appear while a query runs are read from their beginning.",
    )
    assigned: tuple[PartitionKey, ...] = optional(
        "assign",
        to.partition_keys,
        (),
        "",
        'Only these partitions: a JSON list of keys `brokerId:topic:partitionId`, as in `["1:clicks:0"]`.',
    )
    filters: Mapping[str, frozenset[str]] = optional(
        "filters",
        to.filters,
        {},
        "none",
        "Read only messages with one of these tags: tags separated by commas, or JSON from topics to tags, as in "
        '`{"clicks": ["web", "app"]}`. DataProxy sets the tag to the InLong stream id. Offsets move past the other '
        "messages too, so row limits become upper bounds.",
    )
    partition_refresh_interval_ms: int = option(
        "partitionRefreshInterval",
        to.duration_ms(1_000),
        "30s",
        "How often to ask the master for new partitions, and with `subscribePattern` for new topics.",
        only="stream",
        internal=True,
    )

    @property
    def topics(self) -> tuple[str, ...]:
        """The named topics, sorted; () if a pattern selects them."""
        return self.subscribe or tuple(sorted({key.topic for key in self.assigned}))

    @property
    def reader_groups(self) -> tuple[str, ...]:
        """The groups that tasks read with: reading moves a group's position on the broker."""
        return reader_groups_of(self.consumer_group)

    @property
    def choice(self) -> str:
        """Describes what is read: topics, a pattern, or partitions."""
        if self.subscribe_pattern is not None:
            return f"topics that match {self.subscribe_pattern.pattern}"
        if self.assigned:
            return f"{len(self.assigned)} assigned partitions of {', '.join(self.topics)}"
        return ", ".join(self.topics)

    def reads_topic(self, topic: str) -> bool:
        """Whether a topic of this name is read, in whole or in part."""
        if self.subscribe_pattern is not None:
            return self.subscribe_pattern.fullmatch(topic) is not None
        return topic in self.topics

    def selector(self) -> Callable[[PartitionKey], bool]:
        """Return a function that tells whether a partition of this key is read."""
        if self.assigned:
            return frozenset(self.assigned).__contains__
        return lambda key: self.reads_topic(key.topic)

    def tags_of(self, topic: str) -> frozenset[str]:
        """The tags that are read of a topic; none for all its messages."""
        return self.filters.get(topic, self.filters.get(to.ALL_TOPICS, frozenset()))

    def tags_by_topic(self, topics: Iterable[str]) -> Mapping[str, frozenset[str]]:
        """The tags that are read of each of these topics, without the topics that are read as a whole."""
        return {topic: tags for topic in topics if (tags := self.tags_of(topic))}

    def check_filters(self) -> None:
        """Raise ConfigurationError for a filter on a topic that is not read."""
        strange = sorted(topic for topic in self.filters if topic != to.ALL_TOPICS and not self.reads_topic(topic))
        if strange:
            read = self.subscribe_pattern
            raise ConfigurationError(
                f"filters names topic {strange[0]}, which is not read; the topics are "
                + (", ".join(self.topics) if read is None else f"those that match {read.pattern!r} as a whole")
            )


@dataclass(frozen=True, kw_only=True)
class StartAndEnd:
    """Where a read begins and ends, by offset or by time."""

    starting: OffsetSpec | None = optional(
        "startingOffsets",
        partial(OffsetSpec.parse, option="startingOffsets"),
        None,
        "`latest`; for a batch read `earliest`",
        "Where a new query starts: `earliest`, `latest`, `group` (the offsets table first, then the group's position "
        "on the brokers; in a topic with neither, `group` is an error, while `group:earliest` and `group:latest` "
        'start there), or JSON from partition keys to offsets with a `"default"` entry for all others; -2 means '
        "earliest, -1 latest. A query with a checkpoint continues from the checkpoint. Partitions that appear later "
        "are read from their beginning. So are partitions that the JSON does not name, if it names offsets in their "
        "topic and its default is `latest`. A batch read must not start at `latest`.",
    )
    starting_timestamp: OffsetSpec | None = optional(
        "startingTimestamp",
        partial(parse_timestamp, option="startingTimestamp"),
        None,
        "",
        "Start each partition at its first message of this minute or later, in milliseconds since 1970, by the time "
        "that producers write on messages. A partition without such a message starts with its next one. Overrides "
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
