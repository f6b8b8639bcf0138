"""The tables of `python -m bench.scale`: each number with how it was found. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from statistics import linear_regression, median
from typing import Final, NamedTuple

from bench.books import Shape
from bench.planned_day import Day, Memory, PlannedBatch
from bench.scale_parts import TableCommits

__all__ = ["Line", "Measured", "day_lines", "grows", "ten_lines"]

_DAY_SECONDS: Final = 86_400
_SETTLED_SHARE: Final = 0.25
"""Of a day: until then caches fill."""
_MOST_GROWTH: Final = 0.01
"""Of Python's blocks, in a day."""
_KEPT_DAYS: Final = 7
"""How long the offsets table keeps files that newer ones replaced."""
_MEASURED, _COMPUTED = "measured", "computed"


class Line(NamedTuple):
    """One number, and how it was found."""

    what: str
    value: str
    how: str


class Measured(NamedTuple):
    """All parts that the table for ten brokers is made of."""

    shape: Shape
    day: Day
    of_one: Day
    """The same with as many stores as partitions."""
    requests: Counter[str]
    """For a range."""
    commits: TableCommits
    grown_bytes: int
    """Of the process, while it planned."""
    cores: int
    batch_seconds: float
    executor_seconds: float | None
    """CPU for a million rows of 100 bytes, by the last `make bench`."""
    registration_us: float | None
    """CPU of Apache's broker for a partition taken over and given back, by the same."""


def ten_lines(measured: Measured) -> Iterator[Line]:
    """The table for ten brokers."""
    yield from _planner_lines(measured)
    yield from _server_lines(measured)
    yield from _table_lines(measured)
    if measured.executor_seconds is not None:
        cores = measured.executor_seconds * measured.shape.rows_a_second / 1e6
        yield Line("executors: cores for rows of 100 bytes", f"{cores:,.0f}", f"{_COMPUTED} from docs/performance.md")


def _planner_lines(measured: Measured) -> Iterator[Line]:
    found, other = measured.day.batches[1:], measured.of_one.batches[1:]

    def both(measure: Callable[[PlannedBatch], float], form: Callable[[float], str]) -> str:
        return f"{form(median(map(measure, found)))}; {form(median(map(measure, other)))}"

    yield Line("planner: CPU of a batch", both(lambda one: one.planner_ms, _ms), _MEASURED)
    yield Line("offsets to JSON and back, tasks pickled", both(lambda one: one.sent_ms, _ms), _MEASURED)
    per_cent = measured.batch_seconds * 10
    share = both(lambda one: (one.planner_ms + one.sent_ms) / per_cent, lambda value: f"{value:.1f} %")
    yield Line("planner: share of a core", share, _COMPUTED)
    yield Line("planner: memory, masters and books included", _mb(measured.grown_bytes), _MEASURED)
    yield Line(f"a plan, {found[0].tasks:,} tasks", both(lambda one: one.plan_bytes, _kb), _MEASURED)
    yield Line("offsets of a batch as JSON", both(lambda one: one.offsets_bytes, _kb), _MEASURED)
    batches = _DAY_SECONDS / measured.batch_seconds
    yield Line("checkpoint: offsets in a day", both(lambda one: one.offsets_bytes * batches, _mb), _COMPUTED)


def _server_lines(measured: Measured) -> Iterator[Line]:
    shape, day = measured.shape, measured.day
    yield Line("tasks times their brokers, a batch", f"{day.batches[0].connections:,}", _MEASURED)
    yield Line("connections at a broker, at most", f"{measured.cores:,}", f"{_COMPUTED}: one for each Python worker")
    asked = ", ".join(f"{count} {name}" for name, count in sorted(measured.requests.items()))
    yield Line("requests for a range of 50 messages", asked, _MEASURED)
    registrations = shape.all_partitions * measured.requests["register"] / measured.batch_seconds
    value = f"{registrations:,.0f}, {registrations / shape.brokers:,.0f} a broker"
    yield Line("registrations at brokers, a second", value, f"{_COMPUTED} from these")
    if measured.registration_us is not None:
        share = measured.registration_us * registrations / shape.brokers / 1e4
        what = "a broker's CPU for them and for as many ends"
        yield Line(what, f"{share:.1f} % of a core", f"{_COMPUTED} from docs/performance.md: Apache's broker")
    yield Line("master: calls a second", f"{day.master_calls / day.seconds:,.0f}", _MEASURED)
    share = 100 * day.master_seconds / day.seconds
    yield Line("master: CPU for them, in embedded_tubemq", f"{share:.1f} % of a core", _MEASURED)
    yield Line("web calls to all brokers, a second", f"{day.book_calls / day.seconds:.1f}", _MEASURED)
    rows = shape.rows_a_second / shape.brokers
    yield Line("a broker: rows of 100 bytes a second", f"{rows / 1e6:.1f} M, {rows / 1e4:,.0f} MB", _COMPUTED)


def _table_lines(measured: Measured) -> Iterator[Line]:
    commits, batches = measured.commits, _DAY_SECONDS / measured.batch_seconds
    yield Line("offsets table: a commit of all", f"{commits.milliseconds:,.0f} ms", f"{_MEASURED}, a local disk")
    value = f"{_mb(commits.data_bytes * batches)} of data, {_mb(commits.log_bytes * batches)} of log"
    yield Line("offsets table: written in a day", value, f"{_COMPUTED} from measured commits")
    kept = f"{_mb(commits.data_bytes * batches * _KEPT_DAYS)} of data"
    yield Line(f"offsets table: kept, {_KEPT_DAYS} days", kept, f"{_COMPUTED} from these")


def grows(memory: Sequence[Memory]) -> bool:
    """Whether Python has more blocks from hour to hour, once caches are full."""
    slope, mean = _slope(memory)
    return slope * 24 > _MOST_GROWTH * mean


def _settled(memory: Sequence[Memory]) -> Sequence[Memory]:
    return memory[int(len(memory) * _SETTLED_SHARE) :]


def _slope(memory: Sequence[Memory]) -> tuple[float, float]:
    """Blocks that are added in an hour, and how many there are."""
    settled = _settled(memory)
    slope, _ = linear_regression([one.hour for one in settled], [one.blocks for one in settled])
    return slope, sum(one.blocks for one in settled) / len(settled)


def day_lines(shape: Shape, day: Day) -> Iterator[Line]:
    """The table of a day against many brokers."""
    hours = f"{day.seconds / 3_600:.0f} hours of virtual time, {day.cpu_seconds:.0f} s of CPU here"
    yield Line(
        f"{shape.brokers:,} brokers, {shape.all_partitions:,} partitions", f"{len(day.batches):,} batches", hours
    )
    took = [one.planner_ms for one in day.batches[1:]]
    yield Line("planner: CPU of a batch, median; most", f"{_ms(median(took))}; {_ms(max(took))}", _MEASURED)
    tenth = max(1, len(took) // 10)
    value = f"{_ms(median(took[:tenth]))}; {_ms(median(took[-tenth:]))}"
    yield Line("of the first tenth of the batches; of the last", value, _MEASURED)
    slope, mean = _slope(day.memory)
    yield Line("Python's blocks of memory; more in a day", f"{mean:,.0f}; {slope * 24:+,.0f}", _MEASURED)
    first, *_, last = (_mb(one.rss_bytes) for one in _settled(day.memory))
    yield Line(
        "memory of the process after a quarter; at the end", f"{first}; {last}", f"{_MEASURED}, with masters and books"
    )
    verdict = "grows" if grows(day.memory) else "stays"
    yield Line("so memory", verdict, f"at most {_MOST_GROWTH:.0%} more blocks in a day")


def _ms(value: float) -> str:
    return f"{value:.0f} ms"


def _kb(value: float) -> str:
    return f"{value / 1e3:,.0f} kB"


def _mb(value: float) -> str:
    return f"{value / 1e6:,.0f} MB"
