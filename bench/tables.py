"""Results as markdown tables, and their place in a page. Pure text."""

from __future__ import annotations

from typing import Final

from bench.results import Results
from bench.targets import Verdict, judge

__all__ = ["BEGIN", "END", "put_between", "tables"]

BEGIN: Final = "<!-- make bench writes what follows -->"
END: Final = "<!-- up to here -->"
PICTURE: Final = "![Rows a second of each side, minimum, median and maximum](performance.png)"

_PLACES: Final = {"seconds": 3, "milliseconds": 1}


def tables(results: Results) -> str:
    """The link to the picture, then all targets and all figures of a run."""
    lines = [PICTURE, "", _about(results), ""]
    lines += ["| target | goal | found | |", "|---|---|---|---|"]
    lines += [_target_line(verdict) for verdict in judge(results.medians())]
    lines += ["", "| measured | unit | minimum | median | maximum |", "|---|---|---|---|---|"]
    for figure in results.figures.values():
        values = " | ".join(_shown(value, figure.unit) for value in figure.spread)
        lines.append(f"| {figure.title} | {figure.unit} | {values} |")
    return "\n".join(lines) + "\n"


def put_between(page: str, text: str) -> str:
    """The page with `text` between its marks; ValueError where it has none."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page needs the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{text}\n{END}{after}"


def _about(results: Results) -> str:
    machine = results.machine
    trial = "" if results.scale == 1 else f" **Tried out with {results.scale:g} of the messages.**"
    versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
    later = "".join(f" The group {group} is of a later run ({when})." for group, when in results.later.items())
    return (
        f"{results.began[:10]}, {machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']:g} GB; load "
        f"{machine['load_before']:.1f} before and {machine['load_after']:.1f} after. {versions}. Rounds: "
        f"{results.rounds}, after {results.warm_ups} to warm up.{trial}{later}"
    )


def _target_line(verdict: Verdict) -> str:
    target = verdict.target
    goal = f"{'at least' if target.at_least else 'at most'} {_ratio(target.goal)}"
    if verdict.value is None:
        return f"| {target.name} | {goal} | | not measured |"
    word = "reached" if verdict.reached else f"missed: {verdict.reason}" if verdict.reason else "missed"
    return f"| {target.name} | {goal} | {_ratio(verdict.value)} | {word} |"


def _ratio(value: float) -> str:
    return f"{value:,.0f}".replace(",", " ") if value >= 1_000 else f"{value:.2f}"


def _shown(value: float, unit: str) -> str:
    return f"{value:,.{_PLACES.get(unit, 0)}f}".replace(",", " ")
