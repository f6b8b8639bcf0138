"""Results as markdown tables, and their place in a page. Pure text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from bench.cost_tables import broker_table, cost_table
from bench.executor_cpu import GROUP as EXECUTOR_CPU
from bench.results import Results
from bench.targets import Verdict, judge

__all__ = ["END", "PARTS", "begin", "filled", "put_between", "tables"]

END: Final = "<!-- up to here -->"
PICTURE: Final = "![What a row costs, and rows a second of each side: minimum, median and maximum](performance.png)"

_PLACES: Final = {"seconds": 3, "milliseconds": 1}


def tables(results: Results) -> str:
    """The link to the picture, then all targets, why some are missed, and all figures of a run."""
    verdicts = judge(results.medians())
    notes = _notes(verdicts)
    lines = [PICTURE, "", _about(results), ""]
    lines += ["| target | goal | found | |", "|---|---|---|---|"]
    lines += [_target_line(verdict, notes) for verdict in verdicts]
    if notes:
        lines += ["", "Why a target is missed, by the number behind it:", ""]
        lines += [f"{number}. {reason}" for reason, number in notes.items()]
    lines += ["", "| measured | unit | minimum | median | maximum |", "|---|---|---|---|---|"]
    for key, figure in results.figures.items():
        if key.startswith(f"{EXECUTOR_CPU}/"):
            continue  # in tables of their own
        values = " | ".join(_shown(value, figure.unit) for value in figure.spread)
        lines.append(f"| {figure.title} | {figure.unit} | {values} |")
    return "\n".join(lines) + "\n"


PARTS: Final[Mapping[str, Callable[[Results], str]]] = {
    "what a row costs": cost_table,
    "what a broker does": broker_table,
    "all results": tables,
}
"""The generated parts of the page, by the name in their marks."""


def begin(part: str) -> str:
    """The mark where a part begins; END is where it ends."""
    return f"<!-- make bench writes {part} -->"


def filled(page: str, results: Results) -> str:
    """The page with all its generated parts."""
    for part, text in PARTS.items():
        page = put_between(page, part, text(results))
    return page


def put_between(page: str, part: str, text: str) -> str:
    """The page with `text` between the marks of `part`; ValueError where it has none."""
    before, mark, rest = page.partition(begin(part))
    _, end, after = rest.partition(END)
    if not (mark and end):
        raise ValueError(f"the page needs the lines {begin(part)} and {END}")
    return f"{before}{mark}\n\n{text}\n{END}{after}"


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


def _notes(verdicts: Sequence[Verdict]) -> Mapping[str, int]:
    """The reasons of what is missed, each once, numbered as they come up."""
    reasons = dict.fromkeys(verdict.reason for verdict in verdicts if verdict.missed and verdict.reason)
    return {reason: number for number, reason in enumerate(reasons, 1)}


def _target_line(verdict: Verdict, notes: Mapping[str, int]) -> str:
    target = verdict.target
    goal = f"{'at least' if target.at_least else 'at most'} {_ratio(target.goal)}"
    if verdict.value is None:
        return f"| {target.name} | {goal} | | not measured |"
    number = notes.get(verdict.reason)
    word = "reached" if verdict.reached else "missed" if number is None else f"missed ({number})"
    return f"| {target.name} | {goal} | {_ratio(verdict.value)} | {word} |"


def _ratio(value: float) -> str:
    return f"{value:,.0f}".replace(",", " ") if value >= 1_000 else f"{value:.2f}"


def _shown(value: float, unit: str) -> str:
    return f"{value:,.{_PLACES.get(unit, 0)}f}".replace(",", " ")
