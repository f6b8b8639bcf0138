"""Producers that keep writing numbers, each number once, and record the outcome of each."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

from tests.exactly_once.judge import Place
from tubeclient import ClientSettings, Producer, SendResult

__all__ = ["Writers"]

WRITERS = 2
_SLICE = 20
_PUBLISH_MS = 60_000
_END_SECONDS = 100.0


class Writers:
    """Producers of one topic, and what they were told. A message's body is its number."""

    def __init__(self, settings: ClientSettings, topic: str) -> None:
        self._settings = settings
        self._topic = topic
        self._slices = itertools.count(0, _SLICE)
        self._lock = threading.Lock()
        self._acknowledged: dict[int, Place] = {}
        self._unknown: set[int] = set()

    @property
    def acknowledged(self) -> dict[int, Place]:
        """The numbers that a broker took, and where it said they are."""
        with self._lock:
            return dict(self._acknowledged)

    @property
    def unknown(self) -> set[int]:
        """The numbers that may have arrived or not."""
        with self._lock:
            return set(self._unknown)

    @contextmanager
    def writing(self, per_second: float) -> Iterator[None]:
        """Write about `per_second` numbers for the length of the block; after it all answers are there."""
        stop = threading.Event()
        with ThreadPoolExecutor(WRITERS) as threads:
            running = [threads.submit(self._write, _SLICE * WRITERS / per_second, stop) for _ in range(WRITERS)]
            try:
                yield
            finally:
                stop.set()
            for one in running:
                one.result(_END_SECONDS)

    def _write(self, pause: float, stop: threading.Event) -> None:
        with Producer(self._settings) as producer:
            producer.publish([self._topic], timeout_ms=_PUBLISH_MS)
            while not stop.wait(pause):
                with self._lock:
                    first = next(self._slices)
                for number in range(first, first + _SLICE):
                    answer = producer.submit(self._topic, b"%d" % number)
                    answer.add_done_callback(partial(self._note, number))

    def _note(self, number: int, answer: Future[SendResult]) -> None:
        with self._lock:
            if answer.exception() is not None:
                self._unknown.add(number)
            else:
                result = answer.result()
                self._acknowledged[number] = Place(str(result.partition), result.message_id)
