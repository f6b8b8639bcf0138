"""Producers that write numbers all the time, each number once, and note what became of each."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

from tests.exactly_once.judge import Place
from tubeclient import ClientSettings, Producer, SendResult

__all__ = ["Writers", "writing"]

WRITERS = 2
_SLICE = 20
_PUBLISH_MS = 60_000
_END_SECONDS = 100.0


class Writers:
    """What was written so far. A number is a message's whole body, in decimal."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._acknowledged: dict[int, Place] = {}
        self._unknown: dict[int, BaseException] = {}

    @property
    def acknowledged(self) -> dict[int, Place]:
        """The numbers that a broker took, and where it said they are."""
        with self._lock:
            return dict(self._acknowledged)

    @property
    def unknown(self) -> dict[int, BaseException]:
        """The numbers that may have arrived or not."""
        with self._lock:
            return dict(self._unknown)

    def write(self, settings: ClientSettings, topic: str, numbers: Iterable[int], pause: float, stop: threading.Event) -> None:
        """Write slices of numbers with `pause` seconds between them until `stop` is set; returns with all answers."""
        with Producer(settings) as producer:
            producer.publish([topic], timeout_ms=_PUBLISH_MS)
            source = iter(numbers)
            while not stop.wait(pause):
                chosen = list(itertools.islice(source, _SLICE))
                for number, answer in zip(
                    chosen, producer.submit_many(topic, [b"%d" % number for number in chosen]), strict=True
                ):
                    answer.add_done_callback(partial(self._note, number))

    def _note(self, number: int, answer: Future[SendResult]) -> None:
        with self._lock:
            error = answer.exception()
            if error is not None:
                self._unknown[number] = error
            else:
                result = answer.result()
                self._acknowledged[number] = Place(str(result.partition), result.message_id)


@contextmanager
def writing(settings: ClientSettings, topic: str, per_second: float) -> Iterator[Writers]:
    """Producers that write about `per_second` messages for the length of the block; after it all answers are there."""
    writers, stop = Writers(), threading.Event()
    pause = _SLICE * WRITERS / per_second
    with ThreadPoolExecutor(WRITERS) as threads:
        running = [
            threads.submit(writers.write, settings, topic, itertools.count(first, WRITERS), pause, stop)
            for first in range(WRITERS)
        ]
        try:
            yield writers
        finally:
            stop.set()
        for one in running:
            one.result(_END_SECONDS)
