"""Filling topics of a TubeMQ cluster from two processes."""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from typing import Final

from bench.raw_fill import RawFillError, send_all
from tubeclient import ClientSettings
from tubeclient.group import fetch_view

__all__ = ["TubeFillers"]

_PROCESSES: Final = 2
_FILL_SECONDS: Final = 600.0


class TubeFillers:
    """Processes that send, warm from one topic to the next. A context manager."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._processes = ProcessPoolExecutor(_PROCESSES, mp_context=multiprocessing.get_context("spawn"))

    def fill(self, topic: str, messages: int, body_bytes: int) -> float:
        """Send the messages to all partitions in turn, each with a body of its own; seconds. RawFillError."""
        view = fetch_view(self._settings, [topic], ["fill_view"])
        keys = view.partitions()
        addresses = {view.broker_of(key).address for key in keys}
        if len(addresses) != 1:
            raise RawFillError(f"{topic} is to lie on one broker, not on {sorted(addresses)}")
        [address] = addresses
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
