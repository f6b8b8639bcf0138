"""Time limits: of a call, and how long a reader goes on without progress."""

from __future__ import annotations

import math

from tubeclient.errors import ConfigurationError


def given_ms(limit: float, name: str = "timeout_ms") -> float:
    """A call's time limit as its caller gave it; it may be infinite. ConfigurationError if it is no number: a wait for
    NaN would not end, whatever comes."""
    if isinstance(limit, bool) or not isinstance(limit, int | float) or math.isnan(limit):
        raise ConfigurationError(f"{name} must be a number of milliseconds, not {limit!r}")
    return limit


class Patience:
    """Two limits. Faults are tried again for `retry_limit_ms`. While others read the partition in every reader group,
    the wait for a turn ends after `turn_limit_ms`: live readers take as long as their consumers do, dead ones lose the
    partition when their lease ends. All times in ms, of one clock.
    """

    def __init__(self, retry_limit_ms: float, turn_limit_ms: float) -> None:
        self._retry_limit_ms = retry_limit_ms
        self._turn_limit_ms = max(turn_limit_ms, retry_limit_ms)
        self._progress_ms = 0.0
        self._alive_ms = 0.0

    def progress(self, now_ms: float) -> None:
        """Something was read, or reading begins."""
        self._progress_ms = self._alive_ms = now_ms

    def must_wait(self, now_ms: float) -> None:
        """The broker said that others read the partition. So neither the broker nor the way to it is at fault."""
        self._alive_ms = now_ms

    def spent_ms(self, now_ms: float) -> float:
        """Time since something was read."""
        return now_ms - self._progress_ms

    def is_over(self, now_ms: float) -> bool:
        """Whether a limit is reached. In any order of faults and waits, that is so after the longer limit."""
        return now_ms - self._alive_ms >= self._retry_limit_ms or self.longest_ms(now_ms) <= 0

    def longest_ms(self, now_ms: float) -> float:
        """Time until the longer limit is reached, whatever comes."""
        return self._turn_limit_ms - self.spent_ms(now_ms)
