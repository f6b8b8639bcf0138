"""Limits how much of a task's rows is in flight to the brokers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Final, NamedTuple, TypeAlias

from tubeclient.errors import DeadlineExceeded
from tubeclient.producing.outgoing import OutgoingMessage

__all__ = ["MAX_BYTES", "MAX_MESSAGES", "InFlight", "Submit"]

MAX_MESSAGES: Final = 2_000
MAX_BYTES: Final = 8 << 20
"""A larger single message is sent alone."""
_SLICE_MESSAGES: Final = 200
_SLICE_BYTES: Final = 1 << 20


Submit: TypeAlias = Callable[[Sequence[OutgoingMessage]], list[Future[Any]]]
"""Sends messages and returns a future for each; see tubeclient.Producer.submit_each."""


class _Slice(NamedTuple):
    answers: list[Future[Any]]
    size: int
    """Bytes of the payloads."""


class InFlight:
    """Sends messages in order, with at most MAX_MESSAGES and MAX_BYTES of them in flight.

    `patience_ms` is how long to wait for the answers to one slice; the sender gives up earlier, with a reason.
    """

    def __init__(self, submit: Submit, patience_ms: float) -> None:
        self._submit = submit
        self._patience_ms = patience_ms
        self._slices: deque[_Slice] = deque()
        self._messages = 0
        self._bytes = 0

    def send(self, messages: Sequence[OutgoingMessage]) -> None:
        """Send all; waits while too much is in flight. Raises the error of an earlier message that failed."""
        for part in _slices(messages):
            size = _size(part)
            while self._slices and (self._messages + len(part) > MAX_MESSAGES or self._bytes + size > MAX_BYTES):
                self._settle_oldest()
            self._slices.append(_Slice(self._submit(part), size))
            self._messages += len(part)
            self._bytes += size

    def drain(self) -> None:
        """Wait until every message is acknowledged; raises the error of one that failed."""
        while self._slices:
            self._settle_oldest()

    def _settle_oldest(self) -> None:
        answers, size = self._slices.popleft()
        for answer in answers:
            try:
                answer.result(self._patience_ms / 1000)
            except TimeoutError as error:
                if isinstance(error, DeadlineExceeded):
                    raise
                late = f"a message was neither acknowledged nor given up within {self._patience_ms:.0f} ms"
                raise DeadlineExceeded(late) from None
        self._messages -= len(answers)
        self._bytes -= size


def _slices(messages: Sequence[OutgoingMessage]) -> Iterator[Sequence[OutgoingMessage]]:
    """Yield `messages` in parts of at most _SLICE_MESSAGES and _SLICE_BYTES, with at least one in each."""
    start = size = 0
    for number, message in enumerate(messages):
        if number > start and (number - start >= _SLICE_MESSAGES or size + len(message.payload) > _SLICE_BYTES):
            yield messages[start:number]
            start, size = number, 0
        size += len(message.payload)
    if start < len(messages):
        yield messages[start:]


def _size(messages: Sequence[OutgoingMessage]) -> int:
    return sum(len(message.payload) for message in messages)
