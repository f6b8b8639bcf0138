"""How long a reader goes on without any progress."""

from __future__ import annotations

from tubeclient.errors import TubeError

__all__ = ["LASTING_GRACE_MS", "FaultHistory", "Patience"]

LASTING_GRACE_MS = 5_000
"""For so long a fault that no waiting mends is tried again: servers of names have hiccups, and entries come late."""


class FaultHistory:
    """The faults of one call or reader: whether only such came lately as no waiting mends."""

    def __init__(self) -> None:
        self._since_ms: float | None = None

    def lasts(self, error: TubeError, now_ms: float) -> bool:
        """Note a fault. True if only lasting ones came for `LASTING_GRACE_MS`."""
        if not error.lasting:
            self._since_ms = None
            return False
        if self._since_ms is None:
            self._since_ms = now_ms
        return now_ms - self._since_ms >= LASTING_GRACE_MS


class Patience:
    """Two limits. A fault is put up with for `retry_limit_ms`. A turn, where others read the partition in every reader
    group, is waited for up to `turn_limit_ms`: they take as long as their consumers do, and those that died lose the
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
        """The broker has said that others read the partition: nothing is wrong with it, or with the way to it."""
        self._alive_ms = now_ms

    def spent_ms(self, now_ms: float) -> float:
        """How long nothing was read."""
        return now_ms - self._progress_ms

    def is_over(self, now_ms: float) -> bool:
        """Whether either limit is reached. However faults and waits follow each other, it ends with the longer one."""
        return now_ms - self._alive_ms >= self._retry_limit_ms or self.spent_ms(now_ms) >= self._turn_limit_ms
