"""What a run reports, and to whom."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Events", "IngestSummary", "ProgressFile", "Round", "ToAll"]


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


class Events:
    """What happens in a run. All calls come from the run's thread."""

    def begins(self, text: str) -> None:
        """Where the run begins, and why."""

    def reads(self) -> None:
        """The first round is being read."""

    def done(self, round_: Round) -> None:
        """A round is complete."""

    def looked(self, at: datetime) -> None:
        """There was nothing new."""


class ToAll(Events):
    """Passes events on."""

    def __init__(self, *to: Events) -> None:
        self._to = to
        self.reading = False
        """Whether the first round has begun."""

    def begins(self, text: str) -> None:
        for one in self._to:
            one.begins(text)

    def reads(self) -> None:
        self.reading = True
        for one in self._to:
            one.reads()

    def done(self, round_: Round) -> None:
        for one in self._to:
            one.done(round_)

    def looked(self, at: datetime) -> None:
        for one in self._to:
            one.looked(at)


class ProgressFile(Events):
    """Appends rounds to a file, one JSON object per line, each at once."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8")

    def done(self, round_: Round) -> None:
        self._file.write(json.dumps(asdict(round_)) + "\n")
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
