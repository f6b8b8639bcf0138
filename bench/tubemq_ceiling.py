"""The TubeMQ broker's ceiling: two processes that fetch a topic whole and throw the bytes away."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import Final

from bench.one_broker import partitions_on_one_broker
from bench.raw_drain import RawDrainError, Thrown, throw_away
from tubeclient import ClientSettings
from tubeclient.keys import PartitionKey

__all__ = ["TubeCeiling"]

_PROCESSES: Final = 2
_DRAIN_SECONDS: Final = 120.0


class TubeCeiling:
    """Two processes, warm from one topic to the next; each reads half of the partitions. A context manager."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._places: dict[str, tuple[str, list[PartitionKey]]] = {}
        context = multiprocessing.get_context("spawn")
        self._processes = [ProcessPoolExecutor(1, mp_context=context) for _ in range(_PROCESSES)]

    def drain(self, topic: str, messages: int, body_bytes: int) -> float:
        """Seconds for a topic of so many messages, counted from when all partitions are connected. RawDrainError: fewer
        bytes came than the bodies have.
        """
        parts = self._run(topic, parsed=False)
        received = sum(part.received_bytes for part in parts)
        if received < messages * body_bytes:
            raise RawDrainError(f"{topic}: {received} bytes for {messages} messages of {body_bytes} bytes")
        return max(part.ended for part in parts) - min(part.began for part in parts)

    def count(self, topic: str) -> int:
        """How many messages a topic has: read in the same way, and parsed."""
        return sum(part.messages for part in self._run(topic, parsed=True))

    def _run(self, topic: str, *, parsed: bool) -> list[Thrown]:
        if topic not in self._places:
            self._places[topic] = partitions_on_one_broker(self._settings, topic)
        address, keys = self._places[topic]
        runs = [
            process.submit(throw_away, address, keys[number::_PROCESSES], "ceiling", parsed=parsed)
            for number, process in enumerate(self._processes)
        ]
        return [run.result(_DRAIN_SECONDS) for run in runs]

    def __enter__(self) -> TubeCeiling:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.shutdown(cancel_futures=True)
