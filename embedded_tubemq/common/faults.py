"""Faults that can be injected while a server runs.

The master has one `Faults`, and each broker has one. Plain attributes hold until they change. Methods arm a fault for
the next calls of one method. Tests change them from their own thread: every change is one assignment or one append.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum

from tubeclient.wire.methods import Method

__all__ = ["ConnectionFault", "Faults", "ForcedAnswer"]


class ConnectionFault(Enum):
    """What happens to the connection at an armed call."""

    DROP_BEFORE = "drop the connection, do not run the call"
    DROP_AFTER = "run the call, drop the connection instead of answering"
    CORRUPT_FRAME = "answer with a frame that has a wrong begin token"
    SILENCE = "run the call, never answer, keep the connection"


@dataclass(frozen=True, slots=True)
class ForcedAnswer:
    """A refusal injected into a call; `wait_ms` is the minLimitTime that goes with 452."""

    code: int
    wait_ms: int = 0


@dataclass(slots=True)
class Faults:
    """The switches of one server."""

    standby: bool = False
    """The master answers every call with StandbyException."""

    half_packs: bool = False
    """A fetch reads only the first half of the entries it looked up, so pack borders depend on the available data
    (TubeMQ's file reads)."""

    advancing_404: bool = False
    """A fetch that finds no message of its partition up to the end answers 404 and moves the position (TubeMQ's memory
    reads)."""

    answer_delay_ms: int = 0
    """Every answer waits this long; other connections do not wait."""

    stop_reading: bool = False
    """The broker answers 503 to all consumer calls."""

    stop_writing: bool = False
    """The broker answers 503 to producers."""

    corrupt_checksums: int = 0
    """How many further packs get a wrong checksum in their first message."""

    _forced: dict[Method, deque[ForcedAnswer]] = field(default_factory=dict)
    _connection: dict[Method, deque[ConnectionFault | None]] = field(default_factory=dict)

    def force(self, method: Method, code: int, *, times: int = 1, wait_ms: int = 0) -> None:
        """Answer the next `times` calls of `method` with `code`, without running them."""
        self._forced.setdefault(method, deque()).extend([ForcedAnswer(code, wait_ms)] * times)

    def break_connection(
        self, method: Method, fault: ConnectionFault = ConnectionFault.DROP_BEFORE, *, nth: int = 1
    ) -> None:
        """Apply `fault` at the `nth` call of `method` from now on (1 = the next one)."""
        queue = self._connection.setdefault(method, deque())
        queue.extend([None] * (nth - 1 - len(queue)))
        queue.append(fault)

    def clear(self) -> None:
        """Remove all faults."""
        fresh = Faults()
        for name in self.__slots__:
            setattr(self, name, getattr(fresh, name))

    def take_forced(self, method: Method) -> ForcedAnswer | None:
        """For the servers: the refusal armed for this call."""
        queue = self._forced.get(method)
        return queue.popleft() if queue else None

    def take_connection_fault(self, method: Method) -> ConnectionFault | None:
        """For the servers: the connection fault armed for this call."""
        queue = self._connection.get(method)
        return queue.popleft() if queue else None
