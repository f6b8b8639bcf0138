"""Kafka's ceiling: two processes that fetch the whole topic and throw the bytes away.

Each has half of the partitions. Fetches are as large as those of Spark's Kafka source (the consumer's defaults). A
broker answers a connection's requests one after the other. So a process has several connections, each with some of its
partitions and one request in flight. All answers are received into the same buffer, and only the headers of their
record batches are read.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from types import TracebackType
from typing import Final, NamedTuple

from bench.kafka_fetch import fetch_request, walk_response

__all__ = ["KafkaCeiling", "KafkaDrain"]

_PROCESSES: Final = 2
_MAX_BYTES: Final = 52_428_800
_PARTITION_BYTES: Final = 1_048_576
_MAX_WAIT_MS: Final = 500
_ANSWER_SECONDS: Final = 30.0
_READY_SECONDS: Final = 60.0
_DRAIN_SECONDS: Final = 240.0
_FIRST_BUFFER_BYTES: Final = 8 << 20
_LENGTH: Final = struct.Struct(">i")


class KafkaDrain(NamedTuple):
    """One reading of a whole topic by both processes."""

    messages: int
    fetches: int
    seconds: float
    """From the moment when both are connected until the later one has its last answer."""

    @property
    def rate(self) -> float:
        """Messages per second."""
        return self.messages / self.seconds


class KafkaCeiling:
    """Two processes, started at the first drain and used for all of them; close it, or use it with `with`."""

    def __init__(self, connections: int = 2) -> None:
        """`connections` is how many each process has, and so how many of its requests are in flight."""
        context = get_context("spawn")
        self._connections = connections
        self._pool = ProcessPoolExecutor(
            _PROCESSES, context, initializer=_keep_barrier, initargs=(context.Barrier(_PROCESSES),)
        )

    def drain(self, bootstrap: str, topic: str, partitions: int, messages: int) -> KafkaDrain:
        """Read all of a topic that has `messages` messages. RuntimeError: it has another number, or nobody answers."""
        shares = [range(first, partitions, _PROCESSES) for first in range(_PROCESSES)]
        running = [self._pool.submit(_drain, bootstrap, topic, list(share), self._connections) for share in shares]
        parts = [one.result(_DRAIN_SECONDS) for one in running]
        seen = sum(part.messages for part in parts)
        if seen != messages:
            raise RuntimeError(f"topic {topic} gave {seen} messages, not {messages}")
        seconds = max(part.ended for part in parts) - min(part.began for part in parts)
        return KafkaDrain(seen, sum(part.fetches for part in parts), seconds)

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def __enter__(self) -> KafkaCeiling:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Part(NamedTuple):
    """What one process did; the times are of the machine's monotonic clock, which its processes share."""

    messages: int
    fetches: int
    began: float
    ended: float


_barrier: Barrier | None = None


def _keep_barrier(barrier: Barrier) -> None:
    global _barrier
    _barrier = barrier


def _drain(bootstrap: str, topic: str, partitions: Sequence[int], connections: int) -> _Part:
    """Runs in a process of its own."""
    assert _barrier is not None
    count = max(1, min(connections, len(partitions)))
    buffer = bytearray(_FIRST_BUFFER_BYTES)
    open_ones = [_Connection(bootstrap, topic, partitions[first::count]) for first in range(count)]
    try:
        _barrier.wait(_READY_SECONDS)
        began = time.monotonic()
        messages = fetches = 0
        for connection in open_ones:
            connection.ask()
        waiting = open_ones
        while waiting := [one for one in waiting if one.offsets]:
            for connection in waiting:
                messages += connection.receive(buffer)
                fetches += 1
                connection.ask()
        return _Part(messages, fetches, began, time.monotonic())
    finally:
        for connection in open_ones:
            connection.close()


class _Connection:
    """Some partitions, from their beginning, over one connection; one request at a time."""

    def __init__(self, bootstrap: str, topic: str, partitions: Sequence[int]) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._topic = topic
        self._asked = 0
        self.offsets = dict.fromkeys(partitions, 0)
        """Where each partition goes on; those that are at their end are gone."""
        self._socket = socket.create_connection((host, int(port)), timeout=_ANSWER_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self) -> None:
        """Send the next request, if anything is left."""
        if self.offsets:
            self._asked += 1
            self._socket.sendall(
                fetch_request(
                    self._asked,
                    self._topic,
                    self.offsets,
                    max_wait_ms=_MAX_WAIT_MS,
                    max_bytes=_MAX_BYTES,
                    partition_bytes=_PARTITION_BYTES,
                )
            )

    def receive(self, buffer: bytearray) -> int:
        """Receive the answer into `buffer`, which grows if need be, and return its number of messages."""
        self._fill(buffer, _LENGTH.size)
        (length,) = _LENGTH.unpack_from(buffer)
        if length > len(buffer):
            buffer.extend(bytes(length - len(buffer)))
        self._fill(buffer, length)
        messages = 0
        with memoryview(buffer) as view, view[:length] as answer:
            found = walk_response(answer, self.offsets)
        for partition, part in found.items():
            messages += part.walked.messages
            self.offsets[partition] = part.walked.next_offset
            if part.walked.next_offset >= part.end:
                del self.offsets[partition]
        # The next fetch begins with the others, as Kafka's own clients do: an answer can be full before the last one.
        for partition in found:
            if partition in self.offsets:
                self.offsets[partition] = self.offsets.pop(partition)
        return messages

    def close(self) -> None:
        self._socket.close()

    def _fill(self, buffer: bytearray, length: int) -> None:
        with memoryview(buffer) as view:
            have = 0
            while have < length:
                got = self._socket.recv_into(view[have:length])
                if got == 0:
                    raise RuntimeError("Kafka closed the connection")
                have += got
