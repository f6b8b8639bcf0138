"""A job's report about each round, and a file of these reports."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["IngestSummary", "ProgressFile", "Round"]


@dataclass(frozen=True, slots=True)
class Round:
    """One completed round."""

    time: str
    """When it completed: ISO 8601, UTC."""
    sequence: int
    """The group's number of its commit to the target."""
    rows: int
    total_rows: int
    """Of this run, including this round."""
    seconds: float
    """From its planning to the look at its commit."""
    rows_per_second: float
    rows_behind: int | None
    """Upper bound of the rows left to read; exact if all partitions of each store have the same offset."""
    bad_rows: int = 0
    """How many of `rows` are bad records."""
    total_bad_rows: int = 0
    """Of this run, including this round."""


@dataclass(frozen=True, slots=True)
class IngestSummary:
    """What a run did."""

    rows: int
    rounds: int
    seconds: float
    rows_behind: int | None
    """Upper bound after the last round; None if the run has not looked at the brokers."""
    stopped: bool
    """True if it was asked to stop, False if it ended by itself."""
    bad_rows: int = 0
    """How many of `rows` are bad records."""


class ProgressFile:
    """Appends rounds to a file, one JSON object per line. `write` flushes each line."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8")

    def write(self, round_: Round) -> None:
        self._file.write(json.dumps(asdict(round_)) + "\n")
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
