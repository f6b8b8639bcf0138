"""Time limits: of a call, and how long a reader goes on without progress."""

from __future__ import annotations

import math

from tubeclient.errors import (
    ConfigurationError,
    DeadlineExceeded,
    NotAvailable,
    PartitionOccupied,
    PartitionTaken,
    TubeError,
)
from tubeclient.flows.effects import Flow, Now
from tubeclient.keys import BrokerInfo


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

    def put_up_with(self, error: TubeError, doing: str, broker: BrokerInfo) -> Flow[None]:
        """Return if what met this error is to be tried again. Else raise the error, or a DeadlineExceeded when the
        patience is over."""
        if not error.retriable and not isinstance(error, NotAvailable | PartitionTaken):
            raise error
        now_ms: float = yield Now()
        if isinstance(error, PartitionOccupied | PartitionTaken):
            self._alive_ms = now_ms  # neither the broker nor the way to it is at fault
        if self.is_over(now_ms):
            raise DeadlineExceeded(
                f"no progress for {(now_ms - self._progress_ms) / 1000:.0f} s {doing} from broker {broker}: {error}. "
                "Check that broker and the network, or allow a longer retry limit, or wait until others have read "
                "the partition",
                address=broker.address,
                condition="BROKER_UNREACHABLE",
            ) from error

    def is_over(self, now_ms: float) -> bool:
        """Whether a limit is reached. In any order of faults and waits, that is so after the longer limit."""
        alive, progress = now_ms - self._alive_ms, now_ms - self._progress_ms
        return alive >= self._retry_limit_ms or progress >= self._turn_limit_ms
