"""What `tubeclient offsets` shows: documents for scripts, and how people see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from offsets_store import GroupCommit, GroupProgress
from offsets_store.health import Verdict
from tubeclient_cli.common.places import PositionMove
from tubeclient_cli.common.printable import counted
from tubeclient_cli.common.tables import beyond_end, print_rows, time_text
from tubeclient_cli.offsets.status import GroupLag, GroupStatus

__all__ = [
    "commit_row",
    "group_rows",
    "print_history",
    "print_progress",
    "print_status",
    "progress_json",
    "status_json",
]

_SHOWN_MOVES = 8


def group_rows(found: Mapping[str, Sequence[GroupProgress]]) -> list[dict[str, Any]]:
    return [
        {
            "consumerGroup": name,
            "topicSet": progress.group.topic_set,
            "partitions": len(progress.partitions),
            "updatedAt": time_text(progress.updated_at),
            "rowsBehindAtMost": progress.rows_behind,
        }
        for name, sets in found.items()
        for progress in sets
    ]


def progress_json(progress: GroupProgress, lag: GroupLag) -> dict[str, Any]:
    known = {row.partition: row for row in progress.partitions}
    return {
        "topicSet": progress.group.topic_set,
        "sequence": progress.sequence,
        "runEpoch": progress.run_epoch,
        "updatedAt": time_text(progress.updated_at),
        "sourceCount": progress.source_count,
        "clientVersion": progress.client_version,
        "endsAsOf": "now" if lag.as_of is None else time_text(lag.as_of),
        "rowsBehindAtMost": lag.rows_behind,
        "rowsExpiredAtMost": lag.expired,
        "beyondEnd": [str(partition) for partition in lag.beyond],
        "partitions": [
            {
                "partition": str(one.partition),
                "nextOffset": one.next_offset,
                "endOffset": one.end_offset,
                "rowsBehindAtMost": one.rows_behind,
                "nodeId": None if row is None else row.node_id,
                "startOffset": None if row is None else row.start_offset,
                "readers": [] if row is None else [part.as_json() for part in row.readers],
                "reason": None if row is None else row.reason,
            }
            for one in lag.partitions
            for row in [known.get(one.partition)]
        ],
    }


def print_progress(console: Console, group: str, shown: Mapping[str, Any]) -> None:
    console.print(
        f"{group} on {shown['topicSet']}: commit {shown['sequence']} of {shown['updatedAt']}, run {shown['runEpoch']}, "
        f"{counted(shown['sourceCount'], 'node')}, written by {shown['clientVersion']}; ends as of {shown['endsAsOf']}",
        soft_wrap=True,
    )
    print_rows(console, shown["partitions"], leave_out=("startOffset", "readers"))
    behind = shown["rowsBehindAtMost"]
    console.print(f"messages behind in all, at most: {'unknown' if behind is None else f'{behind:,}'}")
    if shown["rowsExpiredAtMost"]:
        console.print(f"unread messages that the brokers no longer hold, at most: {shown['rowsExpiredAtMost']:,}")
    if shown["beyondEnd"]:
        console.print(beyond_end(shown["beyondEnd"]), soft_wrap=True)


def commit_row(commit: GroupCommit) -> dict[str, Any]:
    return {
        "sequence": commit.sequence,
        "version": commit.version,
        "time": time_text(commit.committed_at),
        "runEpoch": commit.run_epoch,
        "by": commit.client_version or commit.operation,
        "topicSet": commit.topic_set,
        "beforeIsKnown": commit.before_is_known,
        "moves": [PositionMove(*move).row() for move in commit.moves],
    }


def print_history(console: Console, rows: Sequence[dict[str, Any]], *, cut: bool) -> None:
    print_rows(console, [{**row, "moves": _moved(row)} for row in rows], leave_out=("beforeIsKnown",))
    if cut:
        console.print("older commits are not kept any more")


def _moved(row: Mapping[str, Any]) -> str:
    if not row["beforeIsKnown"]:
        return "the state before is not kept any more"
    moves = [f"{move['partition']} {_text(move['from'])} -> {_text(move['to'])}" for move in row["moves"]]
    if len(moves) > _SHOWN_MOVES:
        moves[_SHOWN_MOVES:] = [f"{len(moves) - _SHOWN_MOVES} more partitions"]
    return ", ".join(moves) or "nothing"


def status_json(status: GroupStatus) -> dict[str, Any]:
    return {
        "consumerGroup": status.group.consumer_group,
        "topicSet": status.group.topic_set,
        "verdict": status.health.verdict,
        "rowsBehindAtMost": status.health.rows_behind,
        "clients": status.clients,
        "unjudged": [str(partition) for partition in status.health.unjudged],
        "partitions": [
            {
                "partition": str(one.partition),
                "verdict": one.verdict,
                "nextOffset": one.next_offset,
                "rowsBehindAtMost": one.rows_behind,
                "committedAt": None if one.committed_at is None else time_text(one.committed_at),
                "why": one.why,
            }
            for one in status.health.partitions
        ],
    }


def print_status(console: Console, shown: Mapping[str, Any]) -> None:
    console.print(f"{shown['consumerGroup']} on {shown['topicSet']}: {shown['verdict']}", soft_wrap=True)
    rows = [row for row in shown["partitions"] if row["verdict"] is not Verdict.OK]
    rows.sort(key=lambda row: -row["verdict"].severity)
    if rows:
        print_rows(console, rows)
    well, behind = len(shown["partitions"]) - len(rows), shown["rowsBehindAtMost"]
    furthest = "" if behind is None else f"; the furthest behind has {counted(behind, 'message')} to read, at most"
    console.print(f"partitions that are OK: {well:,} of {len(shown['partitions']):,}{furthest}", soft_wrap=True)
    if shown["clients"] is not None:
        console.print(_who(shown["clients"]), soft_wrap=True)


def _who(clients: int) -> str:
    if clients:
        return f"the master lists {counted(clients, 'client')} of the group: it runs, but completes nothing"
    return "the master lists no client of the group: it has ended, or was killed"


def _text(offset: int | None) -> str:
    return "-" if offset is None else str(offset)
