"""What happened to a group, newest first: its commits as sentences. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from offsets_store.rows import RESET
from tubeclient_cli.common.printable import counted
from tubeclient_cli.dashboard.facts import CommitFacts

__all__ = ["events_json"]

_MOST: Final = 60


def events_json(commits: Sequence[CommitFacts]) -> list[dict[str, Any]]:
    """Events of a group's commits (newest first): `kind` is one of read, back, reset, run, nodes, partitions.

    Commits that only read on are one event together, until something else happens.
    """
    found: list[dict[str, Any]] = []
    reading: list[CommitFacts] = []
    for commit in commits:
        told = _told(commit)
        if told and reading:
            found.append(_read(reading))
            reading = []
        found += told
        if commit.partitions_moved:
            reading.append(commit)
    if reading:
        found.append(_read(reading))
    return found[:_MOST]


def _told(commit: CommitFacts) -> list[dict[str, Any]]:
    """What is worth a line of its own."""
    told = []
    if RESET in commit.client_version:
        told.append(_event(commit, "reset", f"`tubeclient offsets reset` moved {counted(_moves(commit), 'partition')}"))
    elif commit.partitions_back:
        told.append(
            _event(
                commit,
                "back",
                f"{counted(commit.partitions_back, 'partition')} went back, by {counted(commit.rows_back, 'message')} "
                "at most: these are read again",
            )
        )
    if commit.new_run and RESET not in commit.client_version:
        began = datetime.fromtimestamp(commit.run_epoch / 1000, UTC)
        # Where only a listener writes, the run has no number.
        since = f", begun {began:%Y-%m-%d %H:%M:%S} UTC" if commit.run_epoch else ""
        text = f"a new run with {counted(commit.source_count, 'node')}{since}, release {commit.client_version}"
        told.append(_event(commit, "run", text))
    if commit.changed_nodes:
        moves = "; ".join(
            f"{count:,} from node {_node(before)} to node {_node(after)}" for before, after, count in commit.changes
        )
        more = "" if sum(change[2] for change in commit.changes) == commit.changed_nodes else "; and others"
        why = f" ({commit.reason})" if commit.reason else ""
        text = f"{counted(commit.changed_nodes, 'partition')} got another node: {moves}{more}{why}"
        told.append(_event(commit, "nodes", text))
    if commit.taken_over:
        told.append(_event(commit, "nodes", f"{counted(commit.taken_over, 'partition')} had backlog taken over"))
    if commit.entered or commit.left:
        parts = [f"{counted(commit.entered, 'partition')} came"] if commit.entered else []
        parts += [f"{counted(commit.left, 'partition')} left"] if commit.left else []
        told.append(_event(commit, "partitions", " and ".join(parts)))
    return told


def _read(commits: Sequence[CommitFacts]) -> dict[str, Any]:
    rows = sum(commit.rows_read for commit in commits)
    text = f"{counted(len(commits), 'commit')} read {counted(rows, 'message')} at most"
    return {**_event(commits[0], "read", text), "since": commits[-1].at_ms, "rows": rows}


def _event(commit: CommitFacts, kind: str, text: str) -> dict[str, Any]:
    return {"at": commit.at_ms, "since": commit.at_ms, "sequence": commit.sequence, "kind": kind, "text": text}


def _moves(commit: CommitFacts) -> int:
    return commit.partitions_moved + commit.partitions_back


def _node(number: int | None) -> str:
    return "none" if number is None else str(number)
