"""Sides that take turns, the figures they give, and how these are shown. No Spark, no servers."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

import psutil

from tools.maven_jars import java_executable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "BEGIN",
    "COST",
    "END",
    "Figure",
    "Results",
    "Side",
    "Timed",
    "cpu_seconds",
    "is_flat",
    "put_between",
    "spark_cpu",
    "timed",
]

BEGIN, END = "<!-- make bench writes all results -->", "<!-- up to here -->"
"""The marks of the generated part of docs/performance.md."""

Side = Callable[[], Mapping[str, float]]
"""Measures once. Returns its figures by their unit, last the one that shows whether it is warm. Raises if it did not
read or write the right messages.
"""
COST: Final = "CPU s for a million"
_LAST: Final = 3
_FLAT_WITHIN: Final = 0.05
_LONGEST_SECONDS: Final = 150.0
"""Of warming up."""


def is_flat(values: Sequence[float]) -> bool:
    """Whether warming up is over: the median of the last three rounds is within 5 % of that of the three before. One
    odd round moves neither.
    """
    if len(values) < 2 * _LAST:
        return False
    last, before = median(values[-_LAST:]), median(values[-2 * _LAST : -_LAST])
    return abs(last - before) <= _FLAT_WITHIN * before


class Figure(NamedTuple):
    """What one side of a measurement gave in each round."""

    what: str
    """What was measured."""
    who: str
    unit: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """Of the last three rounds."""
        return median(self.values[-_LAST:])

    @property
    def flat(self) -> str:
        return "yes" if is_flat(self.values) else "no"


class Results:
    """The figures of a run. The first side of each measurement is the one that the others are compared with."""

    def __init__(self, most_warm_ups: int, scale: float, say: Callable[[str], None] = print) -> None:
        self.most_warm_ups, self.scale = most_warm_ups, scale
        self.figures: list[Figure] = []
        self._say = say
        self._load_before = os.getloadavg()[0]

    def add(self, what: str, who: str, unit: str, values: Sequence[float]) -> None:
        """Note what was measured elsewhere."""
        self.figures.append(Figure(what, who, unit, tuple(values)))

    def take_turns(self, what: str, sides: Mapping[str, Side]) -> None:
        """Warm up by rounds of those sides that are not flat yet, until all are, there were as many as may be, or
        150 s are over. Then come three rounds of all sides, which count. In a round sides take turns, so that other
        work on the machine disturbs all alike.
        """
        found: dict[tuple[str, str], list[float]] = {}
        warm: dict[str, list[float]] = {who: [] for who in sides}

        def round_of(some: Sequence[str], title: str) -> None:
            shown: list[str] = []
            for who in some:
                try:
                    figures = sides[who]()
                except Exception as error:
                    error.add_note(f"while measuring {what}: {who}, {title}")
                    raise
                for unit, value in figures.items():
                    found.setdefault((unit, who), []).append(value)
                warm[who].append([*figures.values()][-1])
                shown.append(f"{who} {' '.join(map(_shown, figures.values()))}")
            self._say(f"{what}, {title}: {'; '.join(shown)}")

        end = time.monotonic() + _LONGEST_SECONDS
        for number in range(1, self.most_warm_ups + 1):
            cold = [who for who in sides if not is_flat(warm[who])]
            if not cold or time.monotonic() >= end:
                break
            round_of(cold, f"warm-up {number}")
        for number in range(1, _LAST + 1):
            round_of([*sides], f"round {number}")
        for unit in dict.fromkeys(unit for unit, _ in found):
            for (of_unit, who), values in found.items():
                if of_unit == unit:
                    self.add(what, who, unit, values)

    def markdown(self) -> str:
        """What it ran on, and a line for each figure with its ratio to the first of its measurement."""
        lines = [self.about(), "", "| measured | who | unit | last three rounds | ratio | flat | each round |"]
        lines.append("|---|---|---|---|---|---|---|")
        first: dict[tuple[str, str], Figure] = {}
        for one in self.figures:
            of = first.setdefault((one.what, one.unit), one)
            ratio = f"{one.median / of.median:.2f}" if of.median else ""
            rounds = ", ".join(map(_shown, one.values))
            lines.append(
                " | ".join((f"| {one.what}", one.who, one.unit, _shown(one.median), ratio, one.flat, f"{rounds} |"))
            )
        return "\n".join(lines) + "\n"

    def about(self) -> str:
        """Machine, load and versions of the run."""
        found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        command = [java_executable(), "-version"]
        printed = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
        java = re.search(r'version "([^"]+)"', printed.stderr)
        versions = {name: metadata.version(name) for name in ("pyspark", "delta-spark", "pyarrow", "protobuf")}
        named = ", ".join(f"{name} {version}" for name, version in versions.items())
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
        trial = "" if self.scale == 1 else f" **Tried out with {self.scale:g} of the messages.**"
        return (
            f"{datetime.now(UTC):%Y-%m-%d}, {found[1] if found else platform.machine()}, {os.cpu_count()} cores, "
            f"{memory:.1f} GB; load {self._load_before:.1f} before and {os.getloadavg()[0]:.1f} after. Apache TubeMQ "
            f"2.4.0, Apache Kafka 3.9.1, Java {java[1] if java else 'unknown'}, Python {platform.python_version()}, "
            f"{named}.{trial}"
        )


def put_between(page: str, text: str) -> str:
    """The page with `text` between the marks; ValueError where it has none."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page needs the lines {BEGIN} and {END}")
    return f"{before}{begin}\n\n{text}\n{end}{after}"


class Timed:
    """How long something took."""

    def __init__(self) -> None:
        self.seconds = 0.0


@contextmanager
def timed() -> Iterator[Timed]:
    """Seconds of what is done within it, afterwards."""
    found, started = Timed(), time.perf_counter()
    yield found
    found.seconds = time.perf_counter() - started


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far, user and system."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


_seen: dict[psutil.Process, tuple[int, float]] = {}
"""Of Spark's processes at the last call of `spark_cpu`: the parent's id, and the CPU seconds."""
_lost = [0.0]
"""CPU seconds of those that ended after their parent, which counted them no more."""


def spark_cpu(spark: SparkSession) -> float:
    """CPU seconds so far of all that Spark runs on: this process, which is the driver's Python, the JVM, and the Python
    processes below it, of which some have ended. Servers and Java's client are not in it.
    """
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    own, jvm = psutil.Process(), psutil.Process(gateway.proc.pid)
    alive: dict[psutil.Process, tuple[int, float]] = {}
    for process in (own, jvm, *jvm.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            spent = times.user + times.system + times.children_user + times.children_system
            alive[process] = process.ppid(), spent
    ids = {process.pid for process in alive}
    # Spark ends its daemon of Python with all its workers: those are nobody's children then.
    _lost[0] += sum(spent for one, (parent, spent) in _seen.items() if one not in alive and parent not in ids)
    _seen.clear()
    _seen.update(alive)
    return _lost[0] + sum(spent for _, spent in alive.values())


def _shown(value: float) -> str:
    """With three digits, and thousands apart."""
    return f"{value:#.3g}".rstrip(".") if value < 999.5 else f"{value:,.0f}".replace(",", " ")
