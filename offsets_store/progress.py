"""What is kept for a consumer group, as values: who it is, how far it read, what is behind."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey, rows_behind
from tubeclient.names import group_name, topic_names

__all__ = ["GroupKey", "GroupProgress", "PartRead", "PartitionProgress", "moved_to"]

_PATTERN_MARK: Final = "pattern:"
"""Topic names have no colon."""


@dataclass(frozen=True, slots=True, init=False)
class GroupKey:
    """A consumer group and what its query subscribes, topics or a pattern of them: what one set of rows belongs to.

    Two patterns are one if their texts are, whatever topics they match now.
    """

    consumer_group: str

    topics: tuple[str, ...]
    """Sorted, each once; () with a pattern."""

    pattern: str | None = None
    """A regular expression that topics' names match as a whole."""

    topic_set: str = field(repr=False, compare=False, default="")
    """The topics joined by commas, or `pattern:` and the pattern, as the table's column `topicSet` has them."""

    def __init__(self, consumer_group: str, topics: Iterable[str] = (), *, pattern: str | None = None) -> None:
        names = tuple(topic_names(topics))
        if pattern is None and not names:
            raise ValueError("() is no set of topics: name at least one, or give a pattern")
        if names and pattern is not None:
            raise ValueError(f"{names!r} is no set of topics: none goes beside a pattern")
        object.__setattr__(self, "consumer_group", group_name(consumer_group))
        object.__setattr__(self, "topics", names)
        object.__setattr__(self, "pattern", pattern)
        object.__setattr__(self, "topic_set", ",".join(names) if pattern is None else f"{_PATTERN_MARK}{pattern}")

    @classmethod
    def of(cls, consumer_group: str, topic_set: str) -> GroupKey:
        """From the text of `topic_set`. ValueError where it is none."""
        if topic_set.startswith(_PATTERN_MARK):
            return cls(consumer_group, pattern=topic_set.removeprefix(_PATTERN_MARK))
        return cls(consumer_group, topic_set.split(","))

    def covers(self, topic: str) -> bool:
        """Whether a topic belongs to this key."""
        if self.pattern is not None:
            return re.fullmatch(self.pattern, topic) is not None
        return topic in self.topics

    @property
    def transaction_id(self) -> str:
        """The application id of this key's Delta transactions; their version is the row's `sequence`."""
        return f"tubeclient:{self.consumer_group}:{self.topic_set}"

    @property
    def group_transaction_id(self) -> str:
        """The application id that the transactions of all the group's keys share; their version is `sequence` too."""
        return f"tubeclient:{self.consumer_group}"

    def __str__(self) -> str:
        return f"group {self.consumer_group!r} on {self.topic_set}"


class PartRead(NamedTuple):
    """A part of what a batch read of one partition, and the node that read it. Offsets are index offsets."""

    node_id: int
    start_offset: int
    end_offset: int

    def as_json(self) -> dict[str, int]:
        """As the table's column `readers` has it."""
        return {"nodeId": self.node_id, "startOffset": self.start_offset, "endOffset": self.end_offset}


class PartitionProgress(NamedTuple):
    """How far one partition was read. Offsets are index offsets, multiples of 28 bytes."""

    partition: PartitionKey

    next_offset: int
    """Where the next batch starts."""

    end_offset: int | None = None
    """Where the broker's data ended when this was noted; None if nobody asked."""

    node_id: int | None = None
    """The group's node that has the partition."""

    start_offset: int | None = None
    """Where the batch began that ended at `next_offset`; None if whoever noted this did not know."""

    readers: tuple[PartRead, ...] = ()
    """All parts of that batch, in order, where several nodes read it."""

    reason: str | None = None
    """Why the partition was read by that node, or by those nodes."""

    @property
    def lag(self) -> int | None:
        """At most so many rows are behind: partitions of one store share its index entries."""
        if self.end_offset is None:
            return None
        return max(0, self.end_offset - self.next_offset) // INDEX_ENTRY_BYTES


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """What the table holds for one `GroupKey`, as of its last commit."""

    group: GroupKey

    partitions: tuple[PartitionProgress, ...]
    """Sorted by partition."""

    source_count: int

    run_epoch: int
    """The run that wrote it: milliseconds since 1970 at that run's start."""

    sequence: int
    """Grows with each commit for the group."""

    updated_at: datetime
    """UTC."""

    client_version: str

    @property
    def positions(self) -> dict[PartitionKey, int]:
        """Partition to the index offset at which its next batch starts."""
        return {row.partition: row.next_offset for row in self.partitions}

    @property
    def rows_behind(self) -> int | None:
        """At most so many rows are behind, over all stores; None where one partition's end is unknown."""
        ends = {row.partition: row.end_offset for row in self.partitions if row.end_offset is not None}
        return rows_behind(ends, self.positions) if len(ends) == len(self.partitions) else None


def moved_to(
    kept: GroupProgress | None,
    positions: Mapping[PartitionKey, int],
    ends: Mapping[PartitionKey, int | None] | None = None,
) -> list[PartitionProgress]:
    """Return `positions` as progress: with the nodes that `kept` names, and with `ends`, or else the ends of `kept`."""
    nodes = {} if kept is None else {row.partition: row.node_id for row in kept.partitions}
    if ends is None:
        ends = {} if kept is None else {row.partition: row.end_offset for row in kept.partitions}
    return [PartitionProgress(p, at, ends.get(p), nodes.get(p)) for p, at in positions.items()]
