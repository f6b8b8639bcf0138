"""Looks at the cluster that give no batch: nothing is new, or too little for `minOffsetsPerTrigger`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from spark_source.stream.snapshot import Snapshot

__all__ = ["IdleLook", "Question", "TriggerDelay"]


class TriggerDelay:
    """Holds back batches with too few rows, for at most `max_delay_ms`: `maxTriggerDelay`.

    As in Spark's Kafka source, a run's first batch is not held back. The time counts from the last batch that was let
    through, even if it had no rows.
    """

    def __init__(self, max_delay_ms: int, clock: Callable[[], float]) -> None:
        """`clock` returns seconds from any origin."""
        self._max_delay_seconds = max_delay_ms / 1000
        self._clock = clock
        self._over_at: float | None = None

    @property
    def over(self) -> bool:
        """Whether the delay is over, so that no batch is held back."""
        return self._over_at is None or self._clock() >= self._over_at

    def holds_back(self, rows: int, min_rows: int) -> bool:
        """Whether a batch of `rows` must wait; if not, the next delay begins now."""
        if rows < min_rows and not self.over:
            return True
        self._over_at = self._clock() + self._max_delay_seconds
        return False


class Question(NamedTuple):
    """Spark's question: where does the batch end?"""

    start: dict[str, Any]
    max_rows: int | None
    min_rows: int | None


class IdleLook(NamedTuple):
    """A question whose answer was that there is nothing to do, and the snapshot of that time. An idle query asks about
    90 times a second, and this answers nearly all of it."""

    question: Question
    snapshot: Snapshot
    held_back: bool
    """There are rows, but too few before the delay is over."""

    def answers(self, question: Question, recent: Snapshot, delay: TriggerDelay) -> bool:
        """Whether there is still nothing to do, because nothing relevant has changed."""
        return recent is self.snapshot and question == self.question and not (self.held_back and delay.over)
