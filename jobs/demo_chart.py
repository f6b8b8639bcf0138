"""The demonstration's picture: records written and messages behind over time, for both runs."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

__all__ = ["draw", "read_progress"]

_INK, _QUIET, _GRID = "#1f2933", "#6b7785", "#e3e7ec"
_RUN_COLOURS = ("#2f6fb0", "#c2571a")


def read_progress(path: Path) -> list[dict[str, Any]]:
    """The events of a progress file of `tubeclient ingest --progress-file`; [] without a file."""
    if not path.exists():
        return []
    # A line that is still being written has no line end.
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if line[-1] == "\n"]


def draw(runs: Sequence[Sequence[dict[str, Any]]], began: datetime, sent: int, picture: Path) -> None:
    """Draw the runs' progress events into a PNG file. `began` is second 0, `sent` the number of records."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter

    figure, (upper, lower) = plt.subplots(2, 1, figsize=(9, 6), sharex=True, height_ratios=(3, 2), layout="constrained")
    figure.suptitle(
        "The job is stopped in the middle and started again: each record once",
        color=_INK,
        x=0.01,
        ha="left",
    )
    rows_before = 0
    spans = []
    for number, (events, colour) in enumerate(zip(runs, _RUN_COLOURS, strict=False), start=1):
        seconds = [(datetime.fromisoformat(event["time"]) - began).total_seconds() for event in events]
        rows = [rows_before + event["total_rows"] for event in events]
        behind = [event["rows_behind"] for event in events]
        upper.plot(seconds, rows, color=colour, marker="o", markersize=3.5, linewidth=1.8, label=f"run {number}")
        lower.plot(seconds, behind, color=colour, marker="o", markersize=3.5, linewidth=1.8)
        if events:
            rows_before = rows[-1]
            spans.append((seconds[0], seconds[-1]))
    upper.axhline(sent, color=_QUIET, linewidth=1, linestyle=(0, (4, 3)))
    upper.annotate(
        f"{sent:,} sent", (0, sent), xytext=(4, -4), textcoords="offset points", va="top", color=_QUIET, fontsize=9
    )
    for (_, stopped), (resumed, _) in itertools.pairwise(spans):
        for panel in (upper, lower):
            panel.axvspan(stopped, resumed, color=_GRID, zorder=0, linewidth=0)
        upper.annotate(
            "stopped, started again",
            ((stopped + resumed) / 2, 0.03),
            xycoords=("data", "axes fraction"),
            ha="center",
            color=_QUIET,
            fontsize=9,
        )
    upper.set_ylabel("records written", color=_INK)
    lower.set_ylabel("messages behind, at most", color=_INK)
    lower.set_xlabel("seconds since the first run began to read", color=_INK)
    upper.legend(loc="lower right", frameon=False)
    for panel in (upper, lower):
        panel.set_xlim(left=0)
        panel.set_ylim(bottom=0)
        panel.grid(axis="y", color=_GRID, linewidth=0.8)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(colors=_QUIET)
        panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=130)
    plt.close(figure)
