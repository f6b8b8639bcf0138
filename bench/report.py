"""What the benchmark prints: both sides' figures, medians, ratios with their spread. No clock, no I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median

from bench.measured import Drained

__all__ = ["RATE_GOAL", "START_GOAL_MS", "differing", "first_message_lines", "throughput_lines"]

RATE_GOAL = 1.5
"""Our messages per second over Java's."""
START_GOAL_MS = 100.0
"""From our start to our first message."""

OURS = "ours"


def differing(rounds: Sequence[Mapping[str, Drained]]) -> str | None:
    """What the sides do not agree on, or None: all must have read the same messages."""
    seen: dict[tuple[int, int, int], str] = {}
    for number, sides in enumerate(rounds):
        for side, drained in sides.items():
            seen.setdefault((drained.messages, drained.ids, drained.checksum), f"{side} in round {number}")
    if len(seen) == 1:
        return None
    return "; ".join(f"{who}: {count} messages, ids {ids}, checksum {crc}" for (count, ids, crc), who in seen.items())


def throughput_lines(rounds: Sequence[Mapping[str, Drained]], warm_ups: int) -> list[str]:
    """The table of all rounds, and the results. The first `warm_ups` rounds do not count.

    Each round maps sides to what they read; "ours" is ours, all others are Java's.
    """
    sides = list(rounds[0])
    counted = rounds[warm_ups:]

    def line(name: str, values: Mapping[str, float], form: str = ",.0f") -> str:
        return f"{name:<12}" + "".join(f"{values[side]:>26{form}}" for side in sides)

    def medians(figure: Callable[[Drained], float]) -> dict[str, float]:
        return {side: median(figure(drained[side]) for drained in counted) for side in sides}

    names = ["warm-up"] * warm_ups + [f"round {number + 1}" for number in range(len(counted))]
    rates = medians(lambda drained: drained.rate)
    cpu = medians(lambda drained: drained.cpu_seconds * 1e6 / drained.messages)
    # The round in which other work on the machine disturbed a side least.
    best = {side: max(drained[side].rate for drained in counted) for side in sides}
    return [
        f"{'messages/s':<12}" + "".join(f"{side:>26}" for side in sides),
        *(
            line(name, {side: one.rate for side, one in drained.items()})
            for name, drained in zip(names, rounds, strict=True)
        ),
        line("median", rates),
        line("best", best),
        line("CPU s / M", cpu, ".2f"),
        line("msg / pack", medians(lambda drained: drained.messages / drained.packs)),
        *(_verdict(side, rates, best, counted) for side in sides if side != OURS),
    ]


def _verdict(
    side: str, rates: Mapping[str, float], best: Mapping[str, float], counted: Sequence[Mapping[str, Drained]]
) -> str:
    by_round = [drained[OURS].rate / drained[side].rate for drained in counted]
    ratio = rates[OURS] / rates[side]
    return (
        f"ours / {side}: {ratio:.2f} by the medians, {best[OURS] / best[side]:.2f} by the best; by round "
        f"{min(by_round):.2f} to {max(by_round):.2f}; goal {RATE_GOAL}: {'reached' if ratio >= RATE_GOAL else 'missed'}"
    )


def first_message_lines(seconds: Mapping[str, Sequence[float]]) -> list[str]:
    """A line for each kind of consumer; those whose name begins with "ours" are ours. All seconds count."""
    lines = [
        f"{side:<44} median {median(times) * 1000:>9,.0f} ms   ({_all_ms(times)})"
        for side, times in seconds.items()
        if times
    ]
    ours = max(median(times) * 1000 for side, times in seconds.items() if side.startswith(OURS))
    reached = "reached" if ours < START_GOAL_MS else "missed"
    lines.append(f"ours, the slower of the two: {ours:.0f} ms; goal under {START_GOAL_MS:.0f} ms: {reached}")
    return lines


def _all_ms(seconds: Sequence[float]) -> str:
    return ", ".join(f"{value * 1000:,.0f}" for value in seconds)
