"""Results as a picture: what a row costs, then rows a second of each side, a panel for each workload; then writing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.cost_tables import WHO
from bench.executor_cpu import COST_UNIT, KAFKA, WORKLOADS_MEASURED
from bench.executor_cpu import GROUP as EXECUTOR_CPU
from bench.results import Figure, Results
from bench.workloads import LAYOUTS, WORKLOADS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Bar", "bars_of", "draw", "panels_of"]

_OURS, _CEILING, _OTHERS = "#1b6ca8", "#c9ced3", "#e0913a"
_MOST_OF_READERS: Final = 3.0
_SIDES: Final = (
    ("ceiling", "broker's ceiling", _CEILING),
    ("tubeclient", "Spark, tubeclient", _OURS),
    ("embedded", "Spark, tubeclient, embedded broker", _OURS),
    ("java", "Java client alone", _OTHERS),
    ("impatient", "Spark, Kafka source", _OTHERS),
    ("source", "Spark, Kafka source by its defaults", _OTHERS),
)
_WRITERS: Final = (
    ("java", "Apache's Java producer", _OTHERS),
    ("many", "our Producer, submit_many", _OURS),
    ("one_by_one", "our Producer, submit", _OURS),
    ("spark", "Spark write, local[2]", _OURS),
    ("java_to_embedded", "Java's producer, embedded broker", _OTHERS),
)
_PLACES: Final = (*((layout.key, layout.title) for layout in LAYOUTS), ("kafka", "Kafka, 8 partitions"))


class Bar:
    """One bar: its label, its colour, and what was measured."""

    def __init__(self, label: str, colour: str, figure: Figure) -> None:
        self.label, self.colour, self.figure = label, colour, figure


def bars_of(results: Results, workload: str) -> dict[str, list[Bar]]:
    """The bars of a workload's panel, from top to bottom, by the heading above them; only what was measured."""
    found: dict[str, list[Bar]] = {}
    for place, heading in _PLACES:
        bars = [
            Bar(label, colour, results.figures[key])
            for side, label, colour in _SIDES
            if (key := f"{workload}/{place}/{side}") in results.figures
        ]
        if bars:
            found[heading] = bars
    return found


def costs_of(results: Results, workload: str) -> dict[str, list[Bar]]:
    """The bars of what a row of a workload costs executors."""
    found: dict[str, list[Bar]] = {}
    for layout in LAYOUTS:
        for who, columns in WHO.items():
            figure = results.figures.get(f"{EXECUTOR_CPU}/{workload}/{layout.key}/{who}/executors")
            if figure is not None:
                label = f"tubeclient, {columns.replace('`', '')}"
                found.setdefault(layout.title, []).append(Bar(label, _OURS, figure))
    figure = results.figures.get(f"{EXECUTOR_CPU}/{workload}/{KAFKA}/executors")
    if figure is not None:
        found["Kafka, 8 partitions"] = [Bar("Kafka source", _OTHERS, figure)]
    return found


def panels_of(results: Results) -> list[tuple[str, dict[str, list[Bar]]]]:
    """All panels that have bars, each with its title, from top to bottom."""
    costs = [(f"{work.title}: {COST_UNIT}, less is better", costs_of(results, work.key)) for work in WORKLOADS_MEASURED]
    rates = [(f"{work.title}: rows a second", bars_of(results, work.key)) for work in WORKLOADS]
    writers = [
        Bar(label, colour, results.figures[key])
        for who, label, colour in _WRITERS
        if (key := f"writing/{who}") in results.figures
    ]
    writing = (
        "writing 100 bytes with tag and attribute: messages a second",
        {"acknowledged": writers} if writers else {},
    )
    return [(title, groups) for title, groups in (*costs, *rates, writing) if groups]


def draw(results: Results, path: Path) -> None:
    """Write the picture, a PNG; its bars are medians, whiskers reach from the least to the most."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = panels_of(results)
    if not panels:
        raise ValueError("there is nothing to draw")
    heights = [sum(len(bars) + 1 for bars in groups.values()) for _, groups in panels]
    figure, axes = pyplot.subplots(
        len(panels), 1, figsize=(9, 0.27 * sum(heights) + 0.8 * len(panels)), height_ratios=heights, squeeze=False
    )
    for (title, groups), axis in zip(panels, axes[:, 0], strict=True):
        _panel(axis, title, groups)
    figure.tight_layout()
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)


def _panel(axis: Axes, title: str, groups: dict[str, list[Bar]]) -> None:
    position, edge = 0.0, _edge([bar for bars in groups.values() for bar in bars])
    ticks: list[float] = []
    labels: list[str] = []
    for heading, bars in groups.items():
        axis.text(0, position, f" {heading}", va="center", fontsize=9, fontweight="bold")
        for bar in bars:
            position += 1
            least, middle, most = bar.figure.spread
            axis.barh(position, middle, 0.72, color=bar.colour)
            if most <= edge:
                axis.errorbar(
                    middle, position, xerr=[[middle - least], [most - middle]], color="#333333", capsize=3, linewidth=1
                )
                axis.text(most + edge * 0.01, position, _short(middle), va="center", fontsize=9)
            else:
                axis.text(edge, position, f"{_short(middle)}, beyond the edge", va="center", ha="right", fontsize=9)
            ticks.append(position)
            labels.append(bar.label)
        position += 1
    axis.set_yticks(ticks, labels, fontsize=9)
    axis.set_ylim(position - 0.3, -0.7)
    axis.set_xlim(0, edge * 1.12)
    axis.xaxis.set_major_formatter(lambda value, _: _short(value))
    axis.set_title(title, loc="left", fontsize=11)
    axis.spines[["top", "right"]].set_visible(False)


def _edge(bars: list[Bar]) -> float:
    """The end of the axis. A ceiling that is ten times as high as the rest is cut off."""
    readers = max((bar.figure.spread.most for bar in bars if bar.colour != _CEILING), default=0.0)
    most = max(bar.figure.spread.most for bar in bars)
    within = [bar.figure.spread.most for bar in bars if bar.figure.spread.most <= _MOST_OF_READERS * readers]
    return max(within, default=most)


def _short(value: float) -> str:
    """A number as people say it: 1.23 M, 45 k."""
    if value >= 1e6:
        return f"{value / 1e6:.2f} M"
    if value >= 1e4:
        return f"{value / 1e3:.0f} k"
    return f"{value:,.0f}" if value >= 10 else f"{value:.2f}"
