"""A look with nothing to do. An idle query asks about 90 times a second, and this answers nearly all of it."""

from __future__ import annotations

from typing import NamedTuple

from spark_source.stream.parsed_offsets import Json
from spark_source.stream.snapshot import Snapshot
from spark_source.stream.trigger_delay import TriggerDelay

__all__ = ["IdleLook", "Question"]


class Question(NamedTuple):
    """Spark's question: where does the batch end?"""

    start: Json
    max_rows: int | None
    min_rows: int | None


class IdleLook(NamedTuple):
    """A question whose answer was that there is nothing to do, and the snapshot of that time."""

    question: Question
    snapshot: Snapshot
    held_back: bool
    """There are rows, but too few before the delay is over."""

    def answers(self, question: Question, recent: Snapshot, delay: TriggerDelay) -> bool:
        """Whether there is still nothing to do, because nothing relevant has changed."""
        return recent is self.snapshot and question == self.question and not (self.held_back and delay.over)
