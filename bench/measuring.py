"""Sides that take turns, the figures they give, and how these are shown. No Spark, no servers."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
    "executors",
    "put_between",
    "spent",
    "task_seconds",
    "timed",
]

BEGIN, END = "<!-- make bench writes all results -->", "<!-- up to here -->"
"""The marks of the generated part of docs/performance.md."""

Side = Callable[[], Mapping[str, float]]
"""Measures once. Returns its figures by their unit. Raises if it did not read or write the right messages."""
COST: Final = "CPU s for a million"
TASKS_COST: Final = f"tasks' {COST}"
_PLACES: Final = {"seconds": 3, "milliseconds": 1, COST: 2, TASKS_COST: 2}


class Figure(NamedTuple):
    """What one side of a measurement gave, once in each round that counts."""

    what: str
    """What was measured."""
    who: str
    unit: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.values)


class Results:
    """The figures of a run. The first side of each measurement is the one that the others are compared with."""

    def __init__(self, rounds: int, warm_ups: int, scale: float, say: Callable[[str], None] = print) -> None:
        self.rounds, self.warm_ups, self.scale = rounds, warm_ups, scale
        self.figures: list[Figure] = []
        self._say = say
        self._load_before = os.getloadavg()[0]

    def add(self, what: str, who: str, unit: str, values: Sequence[float]) -> None:
        """Note what was measured elsewhere."""
        self.figures.append(Figure(what, who, unit, tuple(values)))

    def take_turns(self, what: str, sides: Mapping[str, Side]) -> None:
        """Let each side measure once a round, so that other work on the machine disturbs all alike. The first rounds
        warm up and do not count.
        """
        found: dict[tuple[str, str], list[float]] = {}
        for number in range(-self.warm_ups, self.rounds):
            title = "warm-up" if number < 0 else f"round {number + 1} of {self.rounds}"
            shown: list[str] = []
            for who, measure in sides.items():
                try:
                    figures = measure()
                except Exception as error:
                    error.add_note(f"while measuring {what}: {who}, {title}")
                    raise
                for unit, value in figures.items():
                    if number >= 0:
                        found.setdefault((unit, who), []).append(value)
                shown.append(f"{who} {' '.join(f'{value:,.4g}' for value in figures.values())}")
            self._say(f"{what}, {title}: {'; '.join(shown)}")
        for unit in dict.fromkeys(unit for unit, _ in found):
            for (of_unit, who), values in found.items():
                if of_unit == unit:
                    self.add(what, who, unit, values)

    def markdown(self) -> str:
        """What it ran on, and a line for each figure with its ratio to the first of its measurement."""
        lines = [self.about(), "", "| measured | who | unit | minimum | median | maximum | ratio |"]
        lines.append("|---|---|---|---|---|---|---|")
        first: dict[tuple[str, str], Figure] = {}
        for one in self.figures:
            of = first.setdefault((one.what, one.unit), one)
            values = (_shown(value, one.unit) for value in (min(one.values), one.median, max(one.values)))
            ratio = "" if of is one or not of.median else f"{one.median / of.median:.2f}"
            lines.append(" | ".join((f"| {one.what}", one.who, one.unit, *values, f"{ratio} |")))
        return "\n".join(lines) + "\n"

    def about(self) -> str:
        """Machine, load and versions of the run."""
        found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        said = subprocess.run([java_executable(), "-version"], capture_output=True, text=True, timeout=30, check=True)
        java = re.search(r'version "([^"]+)"', said.stderr)
        versions = {name: metadata.version(name) for name in ("pyspark", "delta-spark", "pyarrow", "protobuf")}
        named = ", ".join(f"{name} {version}" for name, version in versions.items())
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
        trial = "" if self.scale == 1 else f" **Tried out with {self.scale:g} of the messages.**"
        return (
            f"{datetime.now(UTC):%Y-%m-%d}, {found[1] if found else platform.machine()}, {os.cpu_count()} cores, "
            f"{memory:.1f} GB; load {self._load_before:.1f} before and {os.getloadavg()[0]:.1f} after. Apache TubeMQ "
            f"2.4.0, Apache Kafka 3.9.1, Java {java[1] if java else 'unknown'}, Python {platform.python_version()}, "
            f"{named}. Rounds: {self.rounds}, after {self.warm_ups} to warm up.{trial}"
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


Clocks = Mapping[psutil.Process, float]


def executors() -> Clocks:
    """The CPU time so far of what a user of Spark pays for: Python's workers, and Spark's JVM, which with a local
    master is the driver's too.
    """
    found: dict[psutil.Process, float] = {}
    for process in psutil.Process().children(recursive=True):
        try:
            command, times = " ".join(process.cmdline()), process.cpu_times()
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
        if re.search(r"SparkSubmit|pyspark[./]daemon", command):
            found[process] = times.user + times.system
    return found


def spent(since: Clocks) -> float:
    """CPU seconds of executors since then."""
    return sum(now - since.get(process, 0.0) for process, now in executors().items())


def task_seconds(spark: SparkSession) -> float:
    """CPU seconds so far of all tasks of the session, and of Python's workers: without the driver's."""
    context = spark.sparkContext
    gateway = context._gateway
    assert gateway is not None
    assert context._jvm is not None
    none = context._jvm.java.util.ArrayList()
    quantiles = gateway.new_array(gateway.jvm.double, 0)
    stages = context._jsc.sc().statusStore().stageList(none, False, False, quantiles, none)
    tasks = sum(stages.apply(number).executorCpuTime() for number in range(stages.size())) / 1e9
    workers = sum(seconds for process, seconds in executors().items() if process.name() != "java")
    return float(tasks + workers)


def _shown(value: float, unit: str) -> str:
    return f"{value:,.{_PLACES.get(unit, 0)}f}".replace(",", " ")
