"""How times are printed: a heading, and a line for each thing that was timed."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median, quantiles

__all__ = ["HEADING", "times_line"]

HEADING = f"{'':<44}{'median':>9}{'p95':>9}{'most':>9}"


def times_line(name: str, times_ms: Sequence[float], goal_ms: float | None = None) -> str:
    """A line under HEADING, for two times or more. The goal is for the p95."""
    p95 = quantiles(times_ms, n=20)[-1]
    verdict = "" if goal_ms is None else f"   goal {goal_ms:g}: {'reached' if p95 <= goal_ms else 'missed'}"
    return f"{name:<44}{median(times_ms):>9.2f}{p95:>9.2f}{max(times_ms):>9.2f}{verdict}"
