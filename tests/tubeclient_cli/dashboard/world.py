"""Groups and clusters as the dashboard's pure functions get them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from offsets_store import GroupKey, GroupProgress, PartitionProgress
from offsets_store.health import GroupPast, PastPosition
from tubeclient.admin import BrokerState, GroupMember
from tubeclient.keys import BrokerInfo, PartitionKey, StoreBounds, StoreKey, TopicLayout
from tubeclient_cli.dashboard.looking import BrokerFacts, ClusterFacts, Facts, GroupFacts

__all__ = ["NOW_MS", "broker", "cluster", "commits", "facts", "group", "key", "member", "read"]

NOW_MS = 1_795_000_000_000


def moment(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def key(number: int, broker_id: int = 1, topic: str = "clicks") -> PartitionKey:
    return PartitionKey(broker_id, topic, number)


def read(partition: PartitionKey, rows: int, end_rows: int | None = None, node: int | None = 0) -> PartitionProgress:
    """So many rows of a partition are read, of so many."""
    return PartitionProgress(partition, rows * 28, None if end_rows is None else end_rows * 28, node, reason="sticky")


def commits(*rows: tuple[int, PartitionProgress]) -> dict[int, dict[PartitionKey, PastPosition]]:
    """What was written when, in milliseconds before now."""
    found: dict[int, dict[PartitionKey, PastPosition]] = {}
    for ago_ms, row in rows:
        one = PastPosition(moment(NOW_MS - ago_ms), row.next_offset, row.end_offset)
        found.setdefault(NOW_MS - ago_ms, {})[row.partition] = one
    return found


def group(*rows: PartitionProgress, name: str = "clicks_etl", at_ms: int = NOW_MS, **other: Any) -> GroupFacts:
    """Its past has one position of each partition."""
    at = moment(at_ms)
    newest = GroupProgress(GroupKey(name, ["clicks"]), tuple(sorted(rows)), 2, 7, 1, at, "0.1.0")
    seen = {row.partition: (PastPosition(at, row.next_offset, row.end_offset),) for row in rows}
    return GroupFacts(newest, GroupPast(newest.group, seen), other.get("commits", {}))


def broker(number: int = 1, failure: str | None = None) -> BrokerFacts:
    state = BrokerState(
        BrokerInfo(number, f"10.0.0.{number}", 8123),
        8124,
        8081,
        "online",
        "running",
        True,
        True,
        False,
    )
    return BrokerFacts(state, failure, None if failure else 3)


def member(node: int) -> GroupMember:
    return GroupMember(f"client_{node}", f"worker-{node}", False, 2, node, ())


def cluster(
    *brokers: BrokerFacts,
    layouts: Iterable[TopicLayout] = (),
    ends: Mapping[StoreKey, StoreBounds] | None = None,
    members: Mapping[str, tuple[GroupMember, ...]] | None = None,
) -> ClusterFacts:
    return ClusterFacts(brokers or (broker(),), tuple(layouts), ends or {}, members or {})


def facts(*groups: GroupFacts, of_cluster: ClusterFacts | None = None, **other: Any) -> Facts:
    return Facts(NOW_MS, groups, other.pop("groups_at_ms", NOW_MS), of_cluster, **other)
