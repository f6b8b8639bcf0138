"""What is measured of one side, and what both sides use to measure it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import psutil

__all__ = ["Drained", "cpu_seconds"]

_LONG = 1 << 64


class Drained(NamedTuple):
    """One side's reading of a whole topic."""

    messages: int
    packs: int
    ids: int
    """The sum of the messages' ids, modulo 2^64."""
    checksum: int
    """The sum over the partitions of the CRC-32 of all payloads, one after the other."""
    seconds: float
    """From the first call for a pack to the last pack's confirmation."""
    cpu_seconds: float
    """Of all threads of the side's process meanwhile."""

    @classmethod
    def of(
        cls, messages: int, packs: int, ids: int, checksums: Mapping[str, int], seconds: float, cpu_seconds: float
    ) -> Drained:
        """With the sum of the ids as it is, or as Java has it, and the checksum of each partition."""
        return cls(messages, packs, ids % _LONG, sum(checksums.values()), seconds, cpu_seconds)

    @property
    def rate(self) -> float:
        """Messages per second."""
        return self.messages / self.seconds


def cpu_seconds(pid: int | None) -> float:
    """CPU time of a process so far, user and system, in steps of 10 ms."""
    if pid is None:
        raise ValueError("there is no such process: it was not started, or has ended")
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)
