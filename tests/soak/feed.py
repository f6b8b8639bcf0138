"""Sends InLong packs at an even rate, and counts the brokers' answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from tests.exactly_once.contents import in_packs
from tubeclient import ClientSettings, Producer, SendResult

__all__ = ["RECORDS_PER_MESSAGE", "Feed"]

RECORDS_PER_MESSAGE = 2
_TICK_SECONDS = 0.02
_MOST_OPEN = 20_000
"""Messages without an answer; the feed waits at more, so that a slow server cannot fill its memory."""
_ANSWER_SECONDS = 60.0


class Feed:
    """Messages with the numbers 0, 1, 2, ..., two in each; each number is sent once."""

    def __init__(self, settings: ClientSettings, topic: str, per_second: float) -> None:
        self._settings = settings
        self._topic = topic
        self._per_second = per_second
        self._answers = threading.Condition()
        self._open = 0
        self.sent = 0
        """Messages."""
        self.failed: list[str] = []
        """Why messages may not have arrived."""

    @property
    def numbers(self) -> int:
        """How many numbers there are in all messages that were sent."""
        return self.sent * RECORDS_PER_MESSAGE

    @contextmanager
    def running(self) -> Iterator[None]:
        """Send for the length of the block; after it all answers are there."""
        stop = threading.Event()
        thread = threading.Thread(target=self._run, args=(stop,), name="feed")
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
        with self._answers:
            if not self._answers.wait_for(lambda: not self._open, _ANSWER_SECONDS):
                self.failed.append(f"no answer for {self._open} messages within {_ANSWER_SECONDS:.0f} s")

    def _run(self, stop: threading.Event) -> None:
        with Producer(self._settings) as producer:
            producer.publish([self._topic])
            began = time.monotonic()
            while not stop.wait(_TICK_SECONDS):
                due = int((time.monotonic() - began) * self._per_second) - self.sent
                for _ in range(due):
                    self._send(producer)
            with self._answers:
                self._answers.wait_for(lambda: not self._open, _ANSWER_SECONDS)

    def _send(self, producer: Producer) -> None:
        with self._answers:
            self._answers.wait_for(lambda: self._open < _MOST_OPEN, _ANSWER_SECONDS)
            self._open += 1
        start = self.numbers
        [message] = in_packs(range(start, start + RECORDS_PER_MESSAGE))
        self.sent += 1
        producer.submit(self._topic, message.body, attributes=message.attributes).add_done_callback(self._note)

    def _note(self, answer: Future[SendResult]) -> None:
        error = answer.exception()
        with self._answers:
            self._open -= 1
            if error is not None:
                self.failed.append(str(error))
            self._answers.notify_all()
