"""Output of `tubeclient offsets`: tables for people, JSON for scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from offsets_store import GroupCommit, GroupHistory, GroupProgress, PartitionProgress
from offsets_store.health import WINDOW, Verdict
from tubeclient_cli.common.moves import PositionMove, moves_json, print_moves
from tubeclient_cli.common.printable import counted
from tubeclient_cli.common.tables import beyond_end, number, print_table, time_text
from tubeclient_cli.offsets.lag import GroupLag
from tubeclient_cli.offsets.reset import Plan
from tubeclient_cli.offsets.status import GroupStatus

__all__ = [
    "groups_json",
    "history_json",
    "plan_json",
    "print_groups",
    "print_history",
    "print_plan",
    "print_progress",
    "print_status",
    "progress_json",
    "status_json",
]

_SHOWN_MOVES = 8


# list


def print_groups(console: Console, found: Mapping[str, Sequence[GroupProgress]]) -> None:
    rows = [
        (
            name,
            progress.group.topic_set,
            f"{len(progress.partitions):,}",
            time_text(progress.updated_at),
            number(progress.rows_behind),
        )
        for name, sets in found.items()
        for progress in sets
    ]
    if not rows:
        console.print("the offsets table has no group yet: a query writes to it when it starts", soft_wrap=True)
        return
    numbers = ("partitions", "messages behind then, at most")
    columns = ("group", "topics", numbers[0], "last commit", numbers[1])
    print_table(console, columns, rows, keys=("group", "last commit"), right=numbers)


def groups_json(found: Mapping[str, Sequence[GroupProgress]]) -> dict[str, Any]:
    return {
        "groups": [
            {
                "consumerGroup": name,
                "topicSet": progress.group.topic_set,
                "partitions": len(progress.partitions),
                "updatedAt": progress.updated_at.isoformat(),
                "rowsBehind": progress.rows_behind,
            }
            for name, sets in found.items()
            for progress in sets
        ]
    }


# show


def print_progress(console: Console, progress: GroupProgress, lag: GroupLag) -> None:
    as_of = "now" if lag.as_of is None else "that commit; brokers were not asked"
    console.print(
        f"{progress.group}: commit {progress.sequence} of {time_text(progress.updated_at)}, run {progress.run_epoch}, "
        f"{counted(progress.source_count, 'node')}, written by {progress.client_version}; ends as of {as_of}",
        soft_wrap=True,
    )
    known = {row.partition: row for row in progress.partitions}
    rows = [
        (
            str(one.partition),
            number(one.next_offset),
            number(one.end_offset),
            number(one.rows_behind),
            *(("-", "-") if (row := known.get(one.partition)) is None else (_readers(row), _text(row.reason))),
        )
        for one in lag.partitions
    ]
    numbers = ("next offset", "end", "messages behind, at most")
    columns = ("partition", *numbers, "read by node", "why")
    print_table(console, columns, rows, keys=("partition",), right=numbers)
    console.print(f"messages behind in all, at most: {number(lag.rows_behind)}")
    if lag.expired:
        console.print(f"unread messages that the brokers no longer hold, at most: {lag.expired:,}")
    if lag.beyond:
        console.print(beyond_end(lag.beyond), soft_wrap=True)


def progress_json(progress: GroupProgress, lag: GroupLag) -> dict[str, Any]:
    known = {row.partition: row for row in progress.partitions}
    return {
        "topicSet": progress.group.topic_set,
        "sequence": progress.sequence,
        "runEpoch": progress.run_epoch,
        "updatedAt": progress.updated_at.isoformat(),
        "sourceCount": progress.source_count,
        "clientVersion": progress.client_version,
        "endsAsOf": "now" if lag.as_of is None else lag.as_of.isoformat(),
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


def _readers(row: PartitionProgress) -> str:
    return ", ".join(f"{part.node_id} to {part.end_offset:,}" for part in row.readers) or _text(row.node_id)


# history


def print_history(console: Console, found: GroupHistory) -> None:
    rows = [
        (
            _text(commit.sequence),
            str(commit.version),
            time_text(commit.committed_at),
            _text(commit.run_epoch),
            commit.client_version or commit.operation,
            f"{commit.topic_set}: {_moved(commit)}",
        )
        for commit in found.commits
    ]
    columns = ("commit", "version", "time", "run", "by", "moved")
    print_table(console, columns, rows, keys=("commit", "version", "time", "run"))
    if found.cut:
        console.print("older commits are not kept any more")


def history_json(consumer_group: str, found: GroupHistory) -> dict[str, Any]:
    return {
        "consumerGroup": consumer_group,
        "cut": found.cut,
        "commits": [
            {
                "version": commit.version,
                "time": commit.committed_at.isoformat(),
                "operation": commit.operation,
                "topicSet": commit.topic_set,
                "sequence": commit.sequence,
                "runEpoch": commit.run_epoch,
                "clientVersion": commit.client_version,
                "beforeIsKnown": commit.before_is_known,
                "moves": moves_json(PositionMove(*move) for move in commit.moves),
            }
            for commit in found.commits
        ],
    }


def _moved(commit: GroupCommit) -> str:
    if not commit.before_is_known:
        return "the state before is not kept any more"
    if not commit.moves:
        return "nothing (initial offsets of a query)"
    shown = ", ".join(f"{m.partition} {_text(m.start)} -> {_text(m.end)}" for m in commit.moves[:_SHOWN_MOVES])
    more = len(commit.moves) - _SHOWN_MOVES
    return f"{shown} and {more} more partitions" if more > 0 else shown


# status


def print_status(console: Console, status: GroupStatus) -> None:
    health = status.health
    console.print(f"{status.group}: {health.verdict}", soft_wrap=True)
    told = [one for one in health.partitions if one.verdict is not Verdict.OK]
    if told:
        behind = "messages behind, at most"
        rows = [
            (
                str(one.partition),
                one.verdict,
                number(one.rows_behind),
                "-" if one.committed_at is None else time_text(one.committed_at),
                one.why,
            )
            for one in sorted(told, key=lambda one: (-one.verdict.severity, one.partition))
        ]
        columns = ("partition", "verdict", behind, "last commit", "why")
        print_table(console, columns, rows, keys=("partition", "verdict", "last commit"), right=(behind,))
    well = len(health.partitions) - len(told)
    console.print(f"partitions that are OK: {well:,} of {len(health.partitions):,}{_behind(status)}", soft_wrap=True)
    if status.clients is not None:
        console.print(_who(status.clients), soft_wrap=True)
    if health.unjudged:
        console.print(f"partitions that cannot be judged: {len(health.unjudged):,}", soft_wrap=True)
    if status.commits < WINDOW and health.verdict in (Verdict.OK, Verdict.UNKNOWN):
        known = f"the table has {counted(status.commits, 'commit')} of the {WINDOW} that WARN and STALL need"
        console.print(known, soft_wrap=True)


def _behind(status: GroupStatus) -> str:
    rows = status.health.rows_behind
    return "" if rows is None else f"; the furthest behind has {counted(rows, 'message')} to read, at most"


def _who(clients: int) -> str:
    if clients:
        return f"the master lists {counted(clients, 'client')} of the group: it runs, but completes nothing"
    return "the master lists no client of the group: it has ended, or was killed"


def status_json(status: GroupStatus) -> dict[str, Any]:
    return {
        "consumerGroup": status.group.consumer_group,
        "topicSet": status.group.topic_set,
        "verdict": status.health.verdict,
        "commits": status.commits,
        "clients": status.clients,
        "unjudged": [str(partition) for partition in status.health.unjudged],
        "partitions": [
            {
                "partition": str(one.partition),
                "verdict": one.verdict,
                "why": one.why,
                "rowsBehindAtMost": one.rows_behind,
                "nextOffset": one.next_offset,
                "committedAt": None if one.committed_at is None else one.committed_at.isoformat(),
            }
            for one in status.health.partitions
        ],
    }


# reset


def print_plan(console: Console, plan: Plan, *, dry_run: bool) -> None:
    for warning in plan.warnings:
        console.print(f"warning: {warning}", soft_wrap=True)
    print_moves(console, str(plan.key), plan.moves, dry_run=dry_run)
    if plan.moves:
        console.print(f"in all, at most: {plan.rows_again:,} rows are read again, {plan.rows_skipped:,} are skipped")


def plan_json(plan: Plan, to: str, changed: bool, refusal: Exception | None) -> dict[str, Any]:
    return {
        "consumerGroup": plan.key.consumer_group,
        "topicSet": plan.key.topic_set,
        "to": to,
        "changed": changed,
        "refused": None if refusal is None else str(refusal),
        "rowsAgainAtMost": plan.rows_again,
        "rowsSkippedAtMost": plan.rows_skipped,
        "moves": moves_json(plan.moves),
        "warnings": list(plan.warnings),
    }


def _text(value: object) -> str:
    return "-" if value is None else str(value)
