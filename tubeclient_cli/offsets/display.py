"""Output of `tubeclient offsets`: tables for people, JSON for scripts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final

from rich.console import Console

from offsets_store import GroupCommit, GroupHistory, GroupProgress, Move
from offsets_store.health import PartitionHealth, Verdict
from tubeclient.keys import PartitionKey
from tubeclient_cli.common.printable import counted
from tubeclient_cli.common.tables import beyond_end, number, print_table, spans
from tubeclient_cli.offsets.lag import GroupLag
from tubeclient_cli.offsets.reset import Plan
from tubeclient_cli.offsets.status import GroupStatus

__all__ = [
    "groups_json",
    "history_json",
    "lag_json",
    "plan_json",
    "print_groups",
    "print_history",
    "print_lag",
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
            _time(progress.updated_at),
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
    print_table(console, columns, rows, keys=("group", "last commit"), right=numbers, less=(numbers[1],))


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


def print_progress(console: Console, found: Sequence[GroupProgress]) -> None:
    for progress in found:
        console.print(
            f"{progress.group}: commit {progress.sequence} of {_time(progress.updated_at)}, run {progress.run_epoch}, "
            f"{counted(progress.source_count, 'node')}, written by {progress.client_version}",
            soft_wrap=True,
        )
        numbers = ("last batch from", "next offset", "end at commit", "messages behind, at most")
        rows = [
            (
                str(row.partition),
                number(row.start_offset),
                number(row.next_offset),
                number(row.end_offset),
                number(row.lag),
                ", ".join(f"{part.node_id} to {part.end_offset:,}" for part in row.readers) or _text(row.node_id),
                _text(row.reason),
            )
            for row in progress.partitions
        ]
        columns = ("partition", *numbers, "read by node", "why")
        less = ("why", "last batch from", "read by node", "end at commit")
        print_table(console, columns, rows, keys=("partition",), right=numbers, less=less)
        console.print(f"messages behind at the commit, at most: {number(progress.rows_behind)}")


def progress_json(consumer_group: str, found: Sequence[GroupProgress]) -> dict[str, Any]:
    return {
        "consumerGroup": consumer_group,
        "topicSets": [
            {
                "topicSet": progress.group.topic_set,
                "sequence": progress.sequence,
                "runEpoch": progress.run_epoch,
                "updatedAt": progress.updated_at.isoformat(),
                "sourceCount": progress.source_count,
                "clientVersion": progress.client_version,
                "rowsBehind": progress.rows_behind,
                "partitions": [
                    {
                        "partition": str(row.partition),
                        "nextOffset": row.next_offset,
                        "endOffset": row.end_offset,
                        "lag": row.lag,
                        "nodeId": row.node_id,
                        "startOffset": row.start_offset,
                        "readers": [part.as_json() for part in row.readers],
                        "reason": row.reason,
                    }
                    for row in progress.partitions
                ],
            }
            for progress in found
        ],
    }


# history


def print_history(console: Console, found: GroupHistory) -> None:
    rows = [
        (
            _text(commit.sequence),
            str(commit.version),
            _time(commit.committed_at),
            _text(commit.run_epoch),
            commit.client_version or commit.operation,
            f"{commit.topic_set}: {_moved(commit)}",
        )
        for commit in found.commits
    ]
    columns = ("commit", "version", "time", "run", "by", "moved")
    print_table(console, columns, rows, keys=("commit", "version", "time", "run"), less=("version", "by", "run"))
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
                "moves": _moves_json(commit.moves),
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
        columns = ("partition", "verdict", behind, "last commit", "why")
        keys = ("partition", "verdict", "last commit")
        print_table(console, columns, _reasons(told), keys=keys, right=(behind,), less=("last commit", behind))
    well = len(health.partitions) - len(told)
    console.print(f"partitions that are OK: {well:,} of {len(health.partitions):,}{_behind(status)}", soft_wrap=True)
    if status.clients is not None:
        console.print(_who(status.clients), soft_wrap=True)
    if health.unjudged:
        console.print(f"partitions that cannot be judged: {len(health.unjudged):,}", soft_wrap=True)
    if status.commits < status.window and health.verdict in (Verdict.OK, Verdict.UNKNOWN):
        known = f"the table has {counted(status.commits, 'commit')} of the {status.window} that WARN and STALL need"
        console.print(known, soft_wrap=True)


def _reasons(told: Iterable[PartitionHealth]) -> Iterator[tuple[str, ...]]:
    """The table's rows, the worst first. Neighbours with equal cells share a row, and a reason is written once."""

    def kind(one: PartitionHealth) -> tuple[int, str]:
        return -one.verdict.severity, _MESSAGES.sub("N", one.why)

    for _, alike in groupby(sorted(told, key=lambda one: (*kind(one), one.partition)), kind):
        written = False
        for cells, equal in groupby(alike, lambda one: one._replace(partition=_ANY, next_offset=None)):
            for span in spans(one.partition for one in equal):
                at = "-" if cells.committed_at is None else _time(cells.committed_at)
                why = _LIKEWISE if written else cells.why
                yield span, cells.verdict, number(cells.rows_behind), at, why
                written = True


_MESSAGES: Final = re.compile(r"[0-9,]+ messages?( waits?)?")
"""Differs between partitions with the same reason; the table has a column for it."""
_LIKEWISE: Final = "likewise"
_ANY: Final = PartitionKey(0, "", 0)


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


# lag


def print_lag(console: Console, lags: Sequence[GroupLag]) -> None:
    for lag in lags:
        as_of = "now" if lag.as_of is None else f"the group's last commit, {_time(lag.as_of)}; brokers were not asked"
        console.print(f"{lag.topic_set}, as of {as_of}", soft_wrap=True)
        numbers = ("next offset", "end", "messages behind, at most")
        rows = [
            (str(row.partition), number(row.next_offset), number(row.end_offset), number(row.rows_behind))
            for row in lag.partitions
        ]
        print_table(console, ("partition", *numbers), rows, keys=("partition",), right=numbers, less=("end",))
        if lag.stores is not None:
            stores = [(str(store), number(behind)) for store, behind in sorted(lag.stores.items())]
            print_table(console, ("store", numbers[2]), stores, keys=("store",), right=numbers[2:])
        console.print(f"messages behind in all, at most: {number(lag.rows_behind)}")
        if lag.oldest is not None:
            console.print(f"oldest unread message: {_time(lag.oldest.at)}, of {lag.oldest.partition}", soft_wrap=True)
        if lag.expired:
            console.print(f"unread messages that the brokers no longer hold, at most: {lag.expired:,}")
        if lag.beyond:
            console.print(beyond_end(lag.beyond), soft_wrap=True)


def lag_json(consumer_group: str, lags: Sequence[GroupLag]) -> dict[str, Any]:
    return {
        "consumerGroup": consumer_group,
        "topicSets": [
            {
                "topicSet": lag.topic_set,
                "asOf": "now" if lag.as_of is None else lag.as_of.isoformat(),
                "asked": "brokers" if lag.as_of is None else "table",
                "rowsBehindAtMost": lag.rows_behind,
                "rowsExpiredAtMost": lag.expired,
                "beyondEnd": [str(partition) for partition in lag.beyond],
                "oldestUnreadAt": None if lag.oldest is None else lag.oldest.at.isoformat(),
                "stores": None if lag.stores is None else {str(key): rows for key, rows in sorted(lag.stores.items())},
                "partitions": [
                    {
                        "partition": str(row.partition),
                        "nextOffset": row.next_offset,
                        "endOffset": row.end_offset,
                        "rowsBehindAtMost": row.rows_behind,
                    }
                    for row in lag.partitions
                ],
            }
            for lag in lags
        ],
    }


# reset


def print_plan(console: Console, plan: Plan, *, dry_run: bool) -> None:
    for warning in plan.warnings:
        console.print(f"warning: {warning}", soft_wrap=True)
    if not plan.moves:
        console.print(f"{plan.key} has these positions already, nothing moves", soft_wrap=True)
        return
    console.print(f"{plan.key}{', a dry run' if dry_run else ''}:", soft_wrap=True)
    rows = []
    for move in plan.moves:
        end = "unknown: read from its beginning" if move.end is None else number(move.end)
        count = "" if move.rows is None else f"{abs(move.rows):,} {'skipped' if move.rows > 0 else 'again'}"
        rows.append((str(move.partition), number(move.start), end, count))
    numbers = ("from", "to", "rows, at most")
    print_table(console, ("partition", *numbers), rows, keys=("partition",), right=numbers)
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
        "moves": _moves_json(plan.moves),
        "warnings": list(plan.warnings),
    }


# Inside


def _moves_json(moves: Iterable[Move]) -> list[dict[str, Any]]:
    return [{"partition": str(m.partition), "from": m.start, "to": m.end, "rowsAtMost": m.rows} for m in moves]


def _text(value: object) -> str:
    return "-" if value is None else str(value)


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(sep=" ", timespec="seconds")
