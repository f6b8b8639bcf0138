"""Output of `tubeclient groups`: tables for people, JSON for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey
from tubeclient_cli.common.printable import counted
from tubeclient_cli.common.tables import beyond_end, number, print_table, spans

if TYPE_CHECKING:
    from rich.console import Console

    from tubeclient.admin import GroupDetail, GroupMember, GroupOffsets, GroupSummary
    from tubeclient_cli.groups.known import KnownGroup
    from tubeclient_cli.groups.moving import PositionMove

__all__ = [
    "group_json",
    "groups_json",
    "known_json",
    "lag_json",
    "moves_json",
    "print_group",
    "print_groups",
    "print_known",
    "print_lag",
    "print_moves",
]


def print_groups(console: Console, groups: Sequence[GroupSummary]) -> None:
    if not groups:
        console.print("no group has clients online", soft_wrap=True)
        return
    rows = [(group.name, str(group.members), ", ".join(sorted(group.topics))) for group in groups]
    print_table(console, ("group", "clients", "topics"), rows, keys=("group",), right=("clients",))


def groups_json(groups: Sequence[GroupSummary]) -> dict[str, Any]:
    return {"groups": [{"group": one.name, "clients": one.members, "topics": sorted(one.topics)} for one in groups]}


def print_known(console: Console, groups: Sequence[KnownGroup]) -> None:
    if not groups:
        console.print(
            "no group is known; those of queries and of ingest jobs are in their offsets table: `offsets list`",
            soft_wrap=True,
        )
        return
    rows = [
        (
            group.name,
            "online" if group.clients else "offline",
            str(group.clients),
            ", ".join(group.topics) or "unknown",
            ", ".join(group.known_to),
        )
        for group in groups
    ]
    columns = ("group", "state", "clients", "topics", "known to")
    print_table(console, columns, rows, keys=("group", "state"), right=("clients",), less=("known to",))


def known_json(groups: Sequence[KnownGroup]) -> dict[str, Any]:
    return {
        "groups": [
            {
                "group": one.name,
                "online": one.clients > 0,
                "clients": one.clients,
                "topics": list(one.topics),
                "knownTo": list(one.known_to),
            }
            for one in groups
        ]
    }


def print_group(console: Console, group: GroupDetail, partitions: Sequence[PartitionKey]) -> None:
    if not group.members:
        console.print(
            f"group {group.name} has no clients online; `groups lag` shows its positions at the brokers, and `offsets"
            " show` those of a query or an ingest job",
            soft_wrap=True,
        )
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


def group_json(group: GroupDetail, partitions: Sequence[PartitionKey]) -> dict[str, Any]:
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
    }


def print_lag(console: Console, found: GroupOffsets) -> None:
    numbers = ("position", "in flight", "end", "messages behind, at most")
    rows = [
        (str(one.partition), number(one.committed), number(one.in_flight), number(one.end), number(one.rows_behind))
        for one in found.positions
    ]
    print_table(console, ("partition", *numbers), rows, keys=("partition",), right=numbers)
    console.print(f"messages behind in all, at most: {found.rows_behind:,}")
    if found.beyond_end:
        console.print(beyond_end(found.beyond_end), soft_wrap=True)
    console.print(
        "as of the brokers; `tubeclient offsets lag` shows the lag of a group with an offsets table, as of ingest",
        soft_wrap=True,
    )


def lag_json(found: GroupOffsets) -> dict[str, Any]:
    return {
        "group": found.group,
        "rowsBehindAtMost": found.rows_behind,
        "beyondEnd": [str(partition) for partition in found.beyond_end],
        "partitions": [
            {
                "partition": str(one.partition),
                "position": one.committed,
                "inFlightBytes": one.in_flight,
                "end": one.end,
                "rowsBehindAtMost": one.rows_behind,
            }
            for one in found.positions
        ],
    }


def print_moves(console: Console, group: str, moves: Sequence[PositionMove], *, dry_run: bool) -> None:
    if not moves:
        console.print(f"group {group} has these positions already, nothing moves", soft_wrap=True)
        return
    console.print(f"{group}{', a dry run' if dry_run else ''}:", soft_wrap=True)
    numbers = ("from", "to", "rows, at most")
    rows = []
    for key, before, after in moves:
        count = 0 if before is None else (after - before) // INDEX_ENTRY_BYTES
        said = f"{abs(count):,} {'skipped' if count > 0 else 'again'}" if count else ""
        rows.append((str(key), "none" if before is None else number(before), number(after), said))
    print_table(console, ("partition", *numbers), rows, keys=("partition",), right=numbers)


def moves_json(group: str, moves: Sequence[PositionMove], changed: bool) -> dict[str, Any]:
    return {
        "group": group,
        "changed": changed,
        "moves": [{"partition": str(key), "from": before, "to": after} for key, before, after in moves],
    }


def _balance(group: GroupDetail) -> str:
    counts = {member.source_count for member in group.members if member.source_count is not None}
    return counted(len(group.members), "client") + (f" of {counted(counts.pop(), 'node')}" if len(counts) == 1 else "")


def _free(members: Sequence[GroupMember], partitions: Sequence[PartitionKey]) -> list[PartitionKey]:
    return sorted(set(partitions).difference(*(member.partitions for member in members)))
