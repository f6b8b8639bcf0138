"""Groups, commits and clusters as the dashboard's pure functions get them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from offsets_store import GroupKey, GroupProgress, PartitionProgress
from offsets_store.health import GroupPast, PastPosition
from tubeclient.admin import BrokerState, GroupMember, ManageStatus, RunStatus
from tubeclient.keys import BrokerInfo, PartitionKey, StoreBounds, StoreKey, TopicLayout
from tubeclient_cli.dashboard.facts import BrokerFacts, ClusterFacts, CommitFacts, Facts, GroupFacts, Source

__all__ = ["NOW_MS", "broker", "cluster", "commit", "facts", "group", "key", "member", "progress", "read"]

NOW_MS = 1_795_000_000_000


def key(number: int, broker_id: int = 1, topic: str = "clicks") -> PartitionKey:
    return PartitionKey(broker_id, topic, number)


def read(partition: PartitionKey, rows: int, end_rows: int | None = None, node: int | None = 0) -> PartitionProgress:
    """So many rows of a partition are read, of so many."""
    return PartitionProgress(partition, rows * 28, None if end_rows is None else end_rows * 28, node, reason="sticky")


def progress(
    *rows: PartitionProgress,
    name: str = "clicks_etl",
    sequence: int = 1,
    epoch: int = 7,
    version: str = "0.1.0",
    at_ms: int = NOW_MS,
    topics: Sequence[str] = ("clicks",),
    nodes: int = 2,
) -> GroupProgress:
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return GroupProgress(GroupKey(name, topics), tuple(sorted(rows)), nodes, epoch, sequence, at, version)


def commit(at_ms: int = NOW_MS, rows_read: int = 0, rows_behind: int | None = 0, **other: object) -> CommitFacts:
    plain = CommitFacts(
        version=1,
        at_ms=at_ms,
        sequence=1,
        run_epoch=7,
        client_version="0.1.0",
        source_count=2,
        rows_behind=rows_behind,
        rows_read=rows_read,
        partitions_moved=int(rows_read > 0),
        rows_back=0,
        partitions_back=0,
        changed_nodes=0,
        changes=(),
        reason=None,
        taken_over=0,
        entered=0,
        left=0,
        new_run=False,
    )
    return plain._replace(**other)  # type: ignore[arg-type]


def group(*rows: PartitionProgress, commits: Iterable[CommitFacts] = (), **other: object) -> GroupFacts:
    """Its past has one position of each partition."""
    newest = progress(*rows, **other)  # type: ignore[arg-type]
    seen = {row.partition: (PastPosition(newest.updated_at, row.next_offset, row.end_offset),) for row in rows}
    return GroupFacts(newest, tuple(commits), GroupPast(newest.group, seen))


def broker(number: int = 1, failure: str | None = None) -> BrokerFacts:
    state = BrokerState(
        BrokerInfo(number, f"10.0.0.{number}", 8123),
        8124,
        8081,
        ManageStatus.ONLINE,
        RunStatus.RUNNING,
        True,
        True,
        False,
    )
    return BrokerFacts(state, failure, None if failure else 3, 1)


def member(node: int, host: str = "worker") -> GroupMember:
    return GroupMember(f"client_{node}", f"{host}-{node}", False, 2, node, ())


def cluster(
    *brokers: BrokerFacts,
    layouts: Iterable[TopicLayout] = (),
    ends: Mapping[StoreKey, StoreBounds] | None = None,
    members: Mapping[str, tuple[GroupMember, ...]] | None = None,
) -> ClusterFacts:
    return ClusterFacts(brokers or (broker(),), tuple(layouts), ends or {}, members or {})


def facts(*groups: GroupFacts, of_cluster: ClusterFacts | None = None, failure: str | None = None) -> Facts:
    source = Source("offsets table", "/lake/_offsets", NOW_MS, failure)
    return Facts(NOW_MS, (source,), groups, of_cluster, None)
