"""Figures of a run: titles, units and all values; to JSON and back. No clock."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

__all__ = ["RESULTS_FILE", "Figure", "Results", "RunSettings", "Spread"]

RESULTS_FILE: Final = Path(__file__).resolve().parent / "results.json"


class Spread(NamedTuple):
    """Of some values, in their unit."""

    least: float
    median: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of one value or more."""
        return cls(min(values), median(values), max(values))


class Figure(NamedTuple):
    """Something that was measured, once in each round."""

    title: str
    """What was read, and by whom."""
    unit: str
    """As "rows/s", "seconds" or "milliseconds"."""
    values: tuple[float, ...]

    @property
    def spread(self) -> Spread:
        return Spread.of(self.values)


@dataclass
class Results:
    """One run. Keys of figures are paths like "small/one_store/tubeclient"."""

    machine: dict[str, Any]
    """What it ran on, in words and numbers."""
    versions: dict[str, str]
    began: str
    """ISO 8601, UTC."""
    scale: float
    """1 for a whole run; below that all backlogs were smaller, and the figures are for trying out."""
    warm_ups: int
    rounds: int
    figures: dict[str, Figure] = field(default_factory=dict)
    group_seconds: dict[str, float] = field(default_factory=dict)
    later: dict[str, str] = field(default_factory=dict)
    """By group: when it was measured and at what load, if not in this run but in a later one of some groups."""

    def add(self, key: str, title: str, unit: str, values: Sequence[float]) -> None:
        """Add a figure. ValueError: the key is taken, or there is no value."""
        if key in self.figures:
            raise ValueError(f"{key} was measured already")
        if not values:
            raise ValueError(f"{key} has no values")
        self.figures[key] = Figure(title, unit, tuple(_rounded(value) for value in values))

    def replaced(self, part: Results) -> Results:
        """This run with the groups of `part`, a later run of some groups."""
        groups = part.group_seconds
        kept = {key: figure for key, figure in self.figures.items() if key.partition("/")[0] not in groups}
        load = f"load {part.machine['load_before']:.1f} before and {part.machine['load_after']:.1f} after"
        return replace(
            self,
            figures={**kept, **part.figures},
            group_seconds={**self.group_seconds, **groups},
            later={**self.later, **dict.fromkeys(groups, f"{part.began[:10]}, {load}, {part.rounds} rounds")},
        )

    def medians(self) -> Mapping[str, float]:
        """By key."""
        return {key: figure.spread.median for key, figure in self.figures.items()}

    def to_json(self) -> str:
        """Readable text for `from_json`."""
        content = {
            "began": self.began,
            "scale": self.scale,
            "warm_ups": self.warm_ups,
            "rounds": self.rounds,
            "machine": self.machine,
            "versions": self.versions,
            "group_seconds": self.group_seconds,
            "later": self.later,
            "figures": {
                key: {"title": one.title, "unit": one.unit, "values": list(one.values)}
                for key, one in self.figures.items()
            },
        }
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Results:
        """Read what `to_json` wrote."""
        content = json.loads(text)
        figures = {
            key: Figure(one["title"], one["unit"], tuple(one["values"])) for key, one in content.pop("figures").items()
        }
        return cls(**content, figures=figures)


class RunSettings(NamedTuple):
    """How much is measured, and how often."""

    scale: float
    warm_ups: int
    rounds: int


def _rounded(value: float) -> float:
    """With five significant digits. More are noise, and make changes of the file hard to read."""
    return float(f"{value:.5g}")
