"""The processes of a read by what they do in it, and the CPU time of each kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import psutil

__all__ = ["BROKER", "DRAINERS", "EXECUTORS", "JVM", "PYTHON", "Clocks", "Cpu", "clocks", "party_of", "spent"]

BROKER, PYTHON, JVM, DRAINERS = "broker", "python", "jvm", "drainers"
EXECUTORS: Final = (PYTHON, JVM)
"""What a user of Spark pays for: Python's workers and Spark's JVM. With a local master the JVM is the driver's too."""


class Cpu(NamedTuple):
    """CPU seconds of all threads, and of the kernel's work for them (sockets)."""

    user: float
    system: float

    @property
    def total(self) -> float:
        return self.user + self.system


class Clock(NamedTuple):
    """What one process has used so far."""

    party: str
    used: Cpu


Clocks = Mapping[psutil.Process, Clock]


def party_of(command: str) -> str | None:
    """What a process does, by its command line; None if it has no part in a read."""
    if "broker.ini" in command:
        return BROKER
    if "pyspark.daemon" in command or "pyspark/daemon" in command:
        return PYTHON
    if "SparkSubmit" in command:
        return JVM
    return DRAINERS if "multiprocessing" in command else None


def clocks(processes: Iterable[psutil.Process] | None = None) -> Clocks:
    """The CPU time so far of our descendants, or of the processes given, that have a part in reads."""
    found: dict[psutil.Process, Clock] = {}
    for process in psutil.Process().children(recursive=True) if processes is None else processes:
        try:
            party, times = party_of(" ".join(process.cmdline())), process.cpu_times()
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
        if party is not None:
            found[process] = Clock(party, Cpu(times.user, times.system))
    return found


def spent(before: Clocks, after: Clocks, rows: int) -> dict[str, Cpu]:
    """What each party used between two looks, for a million rows.

    A process that is new counts from its beginning: Spark's daemon forks workers while a read begins. One that is gone
    does not count: the daemon ends workers that had nothing to do for a minute.
    """
    used: dict[str, list[Cpu]] = {BROKER: [], PYTHON: [], JVM: [], DRAINERS: []}
    for process, (party, now) in after.items():
        user, system = before[process].used if process in before else (0.0, 0.0)
        used[party].append(Cpu(now.user - user, now.system - system))
    return {
        party: Cpu(sum(one.user for one in of_party) * 1e6 / rows, sum(one.system for one in of_party) * 1e6 / rows)
        for party, of_party in used.items()
    }
