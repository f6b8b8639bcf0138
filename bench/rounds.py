"""Turns: each round measures every side once, so that other load on the machine disturbs all sides alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from bench.results import Results, RunSettings

__all__ = ["Side", "add_turns", "take_turns", "titled_rounds"]

Side = Callable[[], float]
"""Measures once and returns the figure. Raises if it did not read the right messages."""


def titled_rounds(warm_ups: int, rounds: int) -> Iterator[tuple[str, bool]]:
    """The name of each round, and whether it counts."""
    for number in range(-warm_ups, rounds):
        yield ("warm-up", False) if number < 0 else (f"round {number + 1} of {rounds}", True)


def take_turns(
    sides: Mapping[str, Side], *, warm_ups: int, rounds: int, say: Callable[[str], None]
) -> dict[str, list[float]]:
    """Return the figures of the counted rounds, by side. The error of a side names the side and the round."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    for title, counts in titled_rounds(warm_ups, rounds):
        shown: list[str] = []
        for name, measure in sides.items():
            try:
                figure = measure()
            except Exception as error:
                error.add_note(f"while measuring {name}, {title}")
                raise
            if counts:
                found[name].append(figure)
            shown.append(f"{name} {figure:,.4g}" if figure < 1_000 else f"{name} {figure:,.0f}")
        say(f"{title}: {'; '.join(shown)}")
    return found


def add_turns(
    results: Results,
    run: RunSettings,
    sides: Mapping[str, Side],
    titles: Mapping[str, str],
    unit: str,
    say: Callable[[str], None],
) -> None:
    """Let the sides take turns, and note the figures of each, which are in `unit`, under its title."""
    for key, values in take_turns(sides, warm_ups=run.warm_ups, rounds=run.rounds, say=say).items():
        results.add(key, titles[key], unit, values)
