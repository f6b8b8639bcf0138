"""What the table keeps for a consumer group, as values: key, positions, backlog."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from tubeclient.html_table import html_table
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey, rows_behind
from tubeclient.names import GroupName, stored_group_name, topic_names

__all__ = ["GroupKey", "GroupProgress", "PartRead", "PartitionProgress"]

_PATTERN_MARK: Final = "pattern:"
"""Topic names have no colon."""


@dataclass(frozen=True, slots=True, init=False)
class GroupKey:
    """A consumer group and its query's topics or topic pattern: the key of one set of rows.

    Two patterns are equal if their texts are, whatever topics they match.

    Raises:
        ValueError: Neither topics nor a pattern are given, or both are.
    """

    consumer_group: GroupName

    topics: tuple[str, ...]
    """Sorted, each once; () with a pattern."""

    pattern: str | None = None
    """A regular expression; it must match a topic's whole name."""

    topic_set: str = field(repr=False, compare=False, default="")
    """The topics joined by commas, or `pattern:` and the pattern: the table's column `topicSet`."""

    def __init__(self, consumer_group: str, topics: Iterable[str] = (), *, pattern: str | None = None) -> None:
        names = tuple(topic_names(topics))
        if pattern is None and not names:
            raise ValueError("no topics are given: name at least one, or give a pattern")
        if names and pattern is not None:
            raise ValueError(f"give topics or a pattern, not both: {names!r}")
        object.__setattr__(self, "consumer_group", stored_group_name(consumer_group))
        object.__setattr__(self, "topics", names)
        object.__setattr__(self, "pattern", pattern)
        object.__setattr__(self, "topic_set", ",".join(names) if pattern is None else f"{_PATTERN_MARK}{pattern}")

    @classmethod
    def of(cls, consumer_group: str, topic_set: str) -> GroupKey:
        """Make the key of a `topic_set` text.

        Raises:
            ValueError: It is another text.
        """
        if topic_set.startswith(_PATTERN_MARK):
            return cls(consumer_group, pattern=topic_set.removeprefix(_PATTERN_MARK))
        return cls(consumer_group, topic_set.split(","))

    def covers(self, topic: str) -> bool:
        """Return whether a topic belongs to this key."""
        if self.pattern is not None:
            return re.fullmatch(self.pattern, topic) is not None
        return topic in self.topics

    def __str__(self) -> str:
        return f"group {self.consumer_group!r} on {self.topic_set}"


def transaction_id(consumer_group: str) -> str:
    """The application id of all Delta transactions of the group. Their version is the rows' `sequence`."""
    return f"tubeclient:{consumer_group}"


class PartRead(NamedTuple):
    """One node's part of a batch's range of one partition. Offsets are index offsets."""

    node_id: int
    start_offset: int
    end_offset: int

    def as_json(self) -> dict[str, int]:
        """Return one entry of the table's column `readers`."""
        return {"nodeId": self.node_id, "startOffset": self.start_offset, "endOffset": self.end_offset}


class PartitionProgress(NamedTuple):
    """How far one partition was read. Offsets are index offsets, multiples of 28 bytes."""

    partition: PartitionKey

    next_offset: int
    """Where the next batch starts."""

    end_offset: int | None = None
    """The end of the broker's data at that time; None if not looked up."""

    node_id: int | None = None
    """The node that reads the partition."""

    start_offset: int | None = None
    """Where the batch that ended at `next_offset` began; None if unknown."""

    readers: tuple[PartRead, ...] = ()
    """All parts of that batch, in order, if several nodes read it."""

    reason: str | None = None
    """Why that node, or those nodes, read the partition."""

    @property
    def lag(self) -> int | None:
        """The most rows that can be behind; None if `end_offset` is unknown.

        Partitions of one store share its index entries, so there may be fewer.
        """
        if self.end_offset is None:
            return None
        return max(0, self.end_offset - self.next_offset) // INDEX_ENTRY_BYTES


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """The table's content for one `GroupKey`, as of its last commit."""

    group: GroupKey

    partitions: tuple[PartitionProgress, ...]
    """Sorted by partition."""

    source_count: int

    run_epoch: int
    """The run that wrote it: milliseconds since 1970 at its start."""

    sequence: int
    """Grows with each commit for the group."""

    updated_at: datetime
    """UTC."""

    client_version: str

    @property
    def positions(self) -> dict[PartitionKey, int]:
        """The index offset at which each partition's next batch starts."""
        return {row.partition: row.next_offset for row in self.partitions}

    @property
    def rows_behind(self) -> int | None:
        """The most rows that can be behind, over all stores; None if the end of a partition is unknown."""
        ends = {row.partition: row.end_offset for row in self.partitions if row.end_offset is not None}
        return rows_behind(ends, self.positions) if len(ends) == len(self.partitions) else None

    def _repr_html_(self) -> str:
        """For notebooks: the position of each partition."""
        behind = "an unknown number of" if self.rows_behind is None else f"{self.rows_behind:,}"
        title = f"{self.group}: {behind} messages behind at {self.updated_at:%F %T} UTC, commit {self.sequence}"
        rows = ((row.partition, row.next_offset, row.end_offset, row.lag, row.node_id) for row in self.partitions)
        columns = ("partition", "next offset", "end", "at most behind", "node")
        return html_table(title, columns, rows, count=len(self.partitions))
