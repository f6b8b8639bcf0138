"""What `tubeclient groups` shows of a group: a document for scripts, and how people see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tubeclient.keys import PartitionKey
from tubeclient_cli.common.printable import counted
from tubeclient_cli.common.tables import beyond_end, print_rows, spans

if TYPE_CHECKING:
    from rich.console import Console

    from tubeclient.admin import GroupDetail, GroupOffsets

__all__ = ["group_json", "print_group"]


def group_json(
    group: GroupDetail, partitions: Sequence[PartitionKey], positions: GroupOffsets | None
) -> dict[str, Any]:
    """`partitions` are all of the group's topics; `positions` is None if no broker has any."""
    free = set(partitions).difference(*(member.partitions for member in group.members))
    return {
        "group": group.name,
        "kind": str(group.kind),
        "topics": sorted(group.topics),
        "filters": {topic: sorted(tags) for topic, tags in sorted(group.filters.items())},
        "clients": [
            {
                "nodeId": member.node_id,
                "sourceCount": member.source_count,
                "clientId": member.client_id,
                "host": member.host,
                "overTls": member.over_tls,
                "partitions": [*map(str, member.partitions)],
            }
            for member in group.members
        ],
        "heldByNobody": [*map(str, sorted(free))],
        "rowsBehindAtMost": None if positions is None else positions.rows_behind,
        "beyondEnd": [] if positions is None else [*map(str, positions.beyond_end)],
        "partitions": [
            {
                "partition": str(one.partition),
                "position": one.committed,
                "inFlightBytes": one.in_flight,
                "endOffset": one.end,
                "rowsBehindAtMost": one.rows_behind,
            }
            for one in (() if positions is None else positions.positions)
        ],
    }


def print_group(console: Console, shown: Mapping[str, Any]) -> None:
    if shown["clients"]:
        clients, topics = counted(len(shown["clients"]), "client"), ", ".join(shown["topics"])
        console.print(f"{shown['group']}: {clients}, topics {topics}", soft_wrap=True)
        for topic, tags in shown["filters"].items():
            console.print(f"{topic} is filtered by the tags {', '.join(tags)}", soft_wrap=True)
        print_rows(console, [{**row, "partitions": _spans(row["partitions"])} for row in shown["clients"]])
        if shown["heldByNobody"]:
            console.print(f"held by nobody: {', '.join(_spans(shown['heldByNobody']))}", soft_wrap=True)
    else:
        console.print(f"group {shown['group']} has no clients online", soft_wrap=True)
    if shown["partitions"]:
        print_rows(console, shown["partitions"])
        console.print(f"messages behind in all, as of the brokers, at most: {shown['rowsBehindAtMost']:,}")
    else:
        console.print(
            f"no broker has a position of group {shown['group']}; `tubeclient offsets show` has those of a query or an "
            "ingest job",
            soft_wrap=True,
        )
    if shown["beyondEnd"]:
        console.print(beyond_end(shown["beyondEnd"]), soft_wrap=True)


def _spans(partitions: Sequence[str]) -> list[str]:
    return spans(map(PartitionKey.parse, partitions))
