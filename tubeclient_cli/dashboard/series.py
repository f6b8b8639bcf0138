"""Messages behind and messages per second over time, from a group's commits. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from tubeclient_cli.dashboard.facts import CommitFacts

__all__ = ["RATE_WINDOW_MS", "rows_per_second", "series_json"]

RATE_WINDOW_MS: Final = 300_000
"""Rows per second are the mean of so long."""

_MOST_POINTS: Final = 400


def rows_per_second(commits: Sequence[CommitFacts], now_ms: int) -> float | None:
    """The mean of the last five minutes, or of the time since the second newest commit if that is longer. Commits are
    newest first. None if there is one commit or none."""
    if len(commits) < 2:
        return None
    since = max(now_ms - RATE_WINDOW_MS, commits[-1].at_ms)
    rows = 0.0
    for after, before in pairwise(commits):
        if after.at_ms <= since:
            break
        # A commit's rows came evenly since the commit before.
        span = max(1, after.at_ms - before.at_ms)
        rows += after.rows_read * min(1.0, (after.at_ms - since) / span)
    return rows * 1000 / max(1, now_ms - since)


def series_json(commits: Sequence[CommitFacts], now_ms: int, rows_behind_now: int | None) -> dict[str, Any]:
    """`at` (ms since 1970, ascending), `rowsBehind` and `rowsPerSecond` at each, null if unknown. Its last point is now
    if `rows_behind_now` is known. Of many commits neighbours become one point: the worst lag, the mean rate."""
    ordered = commits[::-1]
    step = max(1, -(-len(ordered) // _MOST_POINTS))
    at: list[int] = []
    behind: list[int | None] = []
    rate: list[float | None] = []
    before_ms: int | None = None
    for start in range(0, len(ordered), step):
        some = ordered[start : start + step]
        at.append(some[-1].at_ms)
        behind.append(max((commit.rows_behind for commit in some if commit.rows_behind is not None), default=None))
        rows = sum(commit.rows_read for commit in some)
        span = None if before_ms is None else max(1, some[-1].at_ms - before_ms)
        rate.append(None if span is None else round(rows * 1000 / span, 2))
        before_ms = some[-1].at_ms
    if rows_behind_now is not None and (not at or at[-1] < now_ms):
        at.append(now_ms)
        behind.append(rows_behind_now)
        rate.append(None)
    return {"at": at, "rowsBehind": behind, "rowsPerSecond": rate}
