"""Waiting for a micro-batch that is worth it: `minOffsetsPerTrigger` and `maxTriggerDelay`."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["TriggerDelay"]


class TriggerDelay:
    """Holds batches back that have too few rows, for at most `max_delay_ms`.

    As in Spark's Kafka source, a run's first batch is not held back, and the time counts from when a batch was let go,
    whether or not it then had any rows.
    """

    def __init__(self, max_delay_ms: int, clock: Callable[[], float]) -> None:
        """`clock` tells seconds, from anywhere."""
        self._max_delay_seconds = max_delay_ms / 1000
        self._clock = clock
        self._over_at: float | None = None

    @property
    def over(self) -> bool:
        """Whether nothing is held back any more, however few rows there are."""
        return self._over_at is None or self._clock() >= self._over_at

    def holds_back(self, rows: int, min_rows: int) -> bool:
        """Whether a batch of `rows` has to wait; where it has not, the next wait begins now."""
        if rows < min_rows and not self.over:
            return True
        self._over_at = self._clock() + self._max_delay_seconds
        return False
