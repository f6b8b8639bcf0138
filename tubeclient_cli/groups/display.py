"""Output of `tubeclient groups`: tables for people, JSON for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tubeclient.keys import PartitionKey
from tubeclient_cli.common.printable import counted
from tubeclient_cli.common.tables import beyond_end, number, print_table, spans

if TYPE_CHECKING:
    from rich.console import Console

    from tubeclient.admin import GroupDetail, GroupMember, GroupOffsets, GroupSummary

__all__ = ["group_json", "groups_json", "print_clients", "print_groups", "print_positions"]


def print_groups(console: Console, groups: Sequence[GroupSummary], offline: Sequence[str]) -> None:
    rows = [(group.name, str(group.members), ", ".join(sorted(group.topics))) for group in groups]
    rows += [(name, "0", "") for name in offline]
    if not rows:
        console.print("no group has clients online; --all shows also those without, `offsets list` those of queries")
        return
    print_table(console, ("group", "clients", "topics"), rows, keys=("group",), right=("clients",))


def groups_json(groups: Sequence[GroupSummary], offline: Sequence[str]) -> dict[str, Any]:
    online = [{"group": one.name, "clients": one.members, "topics": sorted(one.topics)} for one in groups]
    return {"groups": [*online, *({"group": name, "clients": 0, "topics": []} for name in offline)]}


def print_clients(console: Console, group: GroupDetail, partitions: Sequence[PartitionKey]) -> None:
    if not group.members:
        console.print(f"group {group.name} has no clients online", soft_wrap=True)
        return
    console.print(f"{group.name}: {_balance(group)}, topics {', '.join(sorted(group.topics))}", soft_wrap=True)
    for topic, tags in sorted(group.filters.items()):
        console.print(f"{topic} is filtered by the tags {', '.join(sorted(tags))}", soft_wrap=True)
    rows = [
        (
            "-" if member.node_id is None else str(member.node_id),
            str(len(member.partitions)),
            ", ".join(spans(member.partitions)) or "none",
            f"{member.client_id} at {member.host}{' over TLS' * member.over_tls}",
        )
        for member in group.members
    ]
    print_table(console, ("node", "partitions", "which", "client"), rows, right=("node", "partitions"))
    if free := _free(group.members, partitions):
        console.print(f"held by nobody: {', '.join(spans(free))}", soft_wrap=True)


def print_positions(console: Console, group: str, found: GroupOffsets | None) -> None:
    if found is None:
        console.print(
            f"no broker has a position of group {group}; `tubeclient offsets show` has those of a query or an ingest"
            " job",
            soft_wrap=True,
        )
        return
    numbers = ("position", "in flight", "end", "messages behind, at most")
    rows = [
        (str(one.partition), number(one.committed), number(one.in_flight), number(one.end), number(one.rows_behind))
        for one in found.positions
    ]
    print_table(console, ("partition", *numbers), rows, keys=("partition",), right=numbers)
    console.print(f"messages behind in all, as of the brokers, at most: {found.rows_behind:,}")
    if found.beyond_end:
        console.print(beyond_end(found.beyond_end), soft_wrap=True)


def group_json(
    group: GroupDetail, partitions: Sequence[PartitionKey], positions: GroupOffsets | None
) -> dict[str, Any]:
    return {
        "group": group.name,
        "kind": str(group.kind),
        "topics": sorted(group.topics),
        "filters": {topic: sorted(tags) for topic, tags in sorted(group.filters.items())},
        "clients": [
            {
                "clientId": member.client_id,
                "host": member.host,
                "overTls": member.over_tls,
                "sourceCount": member.source_count,
                "nodeId": member.node_id,
                "partitions": [str(key) for key in member.partitions],
            }
            for member in group.members
        ],
        "heldByNobody": [str(key) for key in _free(group.members, partitions)],
        "rowsBehindAtMost": None if positions is None else positions.rows_behind,
        "beyondEnd": [] if positions is None else [str(partition) for partition in positions.beyond_end],
        "partitions": [
            {
                "partition": str(one.partition),
                "position": one.committed,
                "inFlightBytes": one.in_flight,
                "end": one.end,
                "rowsBehindAtMost": one.rows_behind,
            }
            for one in (() if positions is None else positions.positions)
        ],
    }


def _balance(group: GroupDetail) -> str:
    counts = {member.source_count for member in group.members if member.source_count is not None}
    return counted(len(group.members), "client") + (f" of {counted(counts.pop(), 'node')}" if len(counts) == 1 else "")


def _free(members: Sequence[GroupMember], partitions: Sequence[PartitionKey]) -> list[PartitionKey]:
    return sorted(set(partitions).difference(*(member.partitions for member in members)))
