"""Delays small micro-batches: `minOffsetsPerTrigger` and `maxTriggerDelay`."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["TriggerDelay"]


class TriggerDelay:
    """Holds back batches with too few rows, for at most `max_delay_ms`.

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
