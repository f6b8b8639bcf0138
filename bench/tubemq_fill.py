"""Filling topics of a TubeMQ cluster from two processes."""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from typing import Final

from bench.one_broker import partitions_on_one_broker
from bench.raw_fill import send_all
from tubeclient import ClientSettings

__all__ = ["TubeFillers"]

_PROCESSES: Final = 2
_FILL_SECONDS: Final = 600.0


class TubeFillers:
    """Processes that send, warm from one topic to the next. A context manager."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._processes = ProcessPoolExecutor(_PROCESSES, mp_context=multiprocessing.get_context("spawn"))

    def fill(self, topic: str, messages: int, body_bytes: int) -> float:
        """Send the messages to all partitions in turn, each with a body of its own; seconds. RuntimeError."""
        address, keys = partitions_on_one_broker(self._settings, topic)
        started = time.perf_counter()
        borders = [messages * part // _PROCESSES for part in range(_PROCESSES + 1)]
        sent = [
            self._processes.submit(send_all, address, keys, first, end, body_bytes) for first, end in pairwise(borders)
        ]
        for one in sent:
            one.result(_FILL_SECONDS)
        return time.perf_counter() - started

    def __enter__(self) -> TubeFillers:
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.shutdown(cancel_futures=True)
