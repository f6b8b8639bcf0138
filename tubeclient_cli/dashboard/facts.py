"""What the dashboard knows at one moment: values without I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from offsets_store import GroupProgress
from offsets_store.health import GroupPast
from tubeclient.admin import BrokerState, GroupMember
from tubeclient.keys import PartitionKey, StoreBounds, StoreKey, TopicLayout

__all__ = [
    "TABLE",
    "BadRecordFacts",
    "BrokerFacts",
    "ClusterFacts",
    "CommitFacts",
    "Facts",
    "GroupFacts",
    "ReasonFacts",
    "Source",
    "Waits",
    "waits_of",
]

TABLE: Final = "offsets table"
"""The name of the source that groups come from."""


class CommitFacts(NamedTuple):
    """One commit of a group, as the page shows it. Times are milliseconds since 1970."""

    version: int
    at_ms: int
    sequence: int
    run_epoch: int
    client_version: str
    source_count: int
    rows_behind: int | None
    """Upper bound over all stores; None if the end of a partition was unknown."""
    rows_read: int
    """Upper bound of what lies between this commit and the one before."""
    partitions_moved: int
    rows_back: int
    """Upper bound of what will be read again because positions went back."""
    partitions_back: int
    changed_nodes: int
    """Partitions that have another node than before."""
    changes: tuple[tuple[int | None, int | None, int], ...]
    """The most frequent of them: node before, node after, partitions."""
    reason: str | None
    """The table's reason of the most frequent change."""
    taken_over: int
    """Partitions whose backlog was read by several nodes."""
    entered: int
    """Partitions that the commit before did not have."""
    left: int
    """Partitions that only the commit before had."""
    new_run: bool


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """One group and topic set."""

    progress: GroupProgress
    commits: tuple[CommitFacts, ...]
    """Newest first, without gaps."""
    past: GroupPast | None = None
    """What the verdict goes by. None if the group's newest run reads other topics."""
    reads_on: bool = False
    """Whether older commits are still to be read."""


class BrokerFacts(NamedTuple):
    """One broker of the master's list; `failure` says why it gave no answer."""

    state: BrokerState
    failure: str | None
    answered_in_ms: int | None
    stores: int


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What masters and brokers say."""

    brokers: tuple[BrokerFacts, ...]
    layouts: tuple[TopicLayout, ...]
    ends: Mapping[StoreKey, StoreBounds]
    """The bounds of the stores' indexes, of the brokers that answered. Stores never written to are missing."""
    members: Mapping[str, tuple[GroupMember, ...]]
    """The clients of each group that has any at the master."""

    @property
    def silent(self) -> frozenset[int]:
        """The brokers that should answer and did not."""
        return frozenset(broker.state.info.broker_id for broker in self.brokers if broker.failure is not None)


class ReasonFacts(NamedTuple):
    """How many bad records of a group have a reason."""

    consumer_group: str
    state: str
    reason: str
    records: int
    newest_ms: int


class BadRecordFacts(NamedTuple):
    """What a table of bad records has."""

    records: int
    reasons: tuple[ReasonFacts, ...]


class Source(NamedTuple):
    """One thing that the dashboard looks at, and how that went."""

    name: str
    place: str
    as_of_ms: int | None
    """When the data that is shown was read; None if there is none."""
    failure: str | None
    """Why there is nothing newer, or what is missing."""


Waits: TypeAlias = Mapping[tuple[str, PartitionKey, int], int]
"""By group, partition and position: since when messages have been seen to wait there, in milliseconds since 1970."""


def waits_of(before: Waits, groups: Sequence[GroupFacts], cluster: ClusterFacts | None, now_ms: int) -> Waits:
    """Which positions have messages behind them now; `before` is what this gave last.

    The page asks no broker for messages, so it does not know their times.
    """
    ends = {} if cluster is None else cluster.ends
    return {
        key: before.get(key, now_ms)
        for group in groups
        for row in group.progress.partitions
        if (held := ends.get(row.partition.store)) is not None and held.max_offset > row.next_offset
        for key in [(group.progress.group.consumer_group, row.partition, row.next_offset)]
    }


@dataclass(frozen=True, slots=True)
class Facts:
    """All of it. None: not looked at, or nothing came yet."""

    now_ms: int
    sources: tuple[Source, ...]
    groups: tuple[GroupFacts, ...] | None
    cluster: ClusterFacts | None
    bad_records: BadRecordFacts | None
    waits: Waits = field(default_factory=dict)

    @property
    def table_at_ms(self) -> int:
        """The moment that groups are judged at: while the offsets table cannot be read, when it was read last. What
        the groups committed since then is not known, so their silence since then means nothing."""
        for source in self.sources:
            if source.name == TABLE and source.failure is not None and source.as_of_ms is not None:
                return source.as_of_ms
        return self.now_ms
