"""A look that gave nothing to do. An idle query asks about 90 times a second; nearly all of it is answered by this."""

from __future__ import annotations

from typing import NamedTuple

from spark_source.stream.parsed_offsets import Json
from spark_source.stream.snapshot import Snapshot
from spark_source.stream.trigger_delay import TriggerDelay

__all__ = ["IdleLook", "Question"]


class Question(NamedTuple):
    """What Spark asks: where does the batch end?"""

    start: Json
    max_rows: int | None
    min_rows: int | None


class IdleLook(NamedTuple):
    """The question that had nothing to do as its answer, and what was seen then."""

    question: Question
    snapshot: Snapshot
    held_back: bool
    """There are rows, but too few before the delay is over."""

    def answers(self, question: Question, recent: Snapshot, delay: TriggerDelay) -> bool:
        """Whether there is still nothing to do: nothing that counts has changed."""
        return recent is self.snapshot and question == self.question and not (self.held_back and delay.over)
