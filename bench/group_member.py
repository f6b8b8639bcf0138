"""A member of a group in a process of its own, which can be killed or stopped. It reports each pack that it confirms.

Each member has its own pipe for that. So a member that dies while it writes harms no other.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
import time
from bisect import bisect_right
from collections import defaultdict
from multiprocessing.connection import Connection
from typing import NamedTuple

from tubeclient import ClientSettings, PartitionKey, PullConsumer, StalePack, TransportError

__all__ = ["Member"]

_GET_MS = 100
_END_SECONDS = 60.0


class _Joining(NamedTuple):
    at: float


class _Joined(NamedTuple):
    client_id: str


class _Confirmed(NamedTuple):
    at: float
    partition: PartitionKey


class _Closing(NamedTuple):
    at: float


class Member:
    """A member, alive or dead. Moments are of `time.monotonic`, which all processes of a machine share.

    `heard` is notified of each report. Always end a member with `kill`.
    """

    def __init__(
        self, settings: ClientSettings, group: str, topic: str, refresh_ms: int, heard: threading.Condition
    ) -> None:
        self.joining_at = 0.0
        """When it began to join; 0 before."""
        self.client_id = ""
        """Empty until it has joined."""
        self.closing_at = 0.0
        """When it began to give its partitions back; 0 before."""
        self._heard = heard
        self._confirmed: defaultdict[PartitionKey, list[float]] = defaultdict(list)
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        arguments = settings, group, topic, refresh_ms, theirs
        self._process = context.Process(target=_take_part, args=arguments, daemon=True)
        self._process.start()
        theirs.close()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def first_after(self, partition: PartitionKey, moment: float) -> float | None:
        """When it first confirmed a message of the partition after that moment; None if it has not."""
        moments = self._confirmed.get(partition, [])
        index = bisect_right(moments, moment)
        return moments[index] if index < len(moments) else None

    @property
    def alive(self) -> bool:
        """Whether its process exists, running or stopped."""
        return self._process.is_alive()

    def stop(self) -> None:
        """Stop its process (SIGSTOP)."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let its process go on (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """Let it release its partitions and end."""
        self._pipe.send(None)

    def kill(self) -> None:
        """End it at once (SIGKILL). Returns when it is gone."""
        self._process.kill()
        self._process.join(_END_SECONDS)
        self._listener.join(_END_SECONDS)
        self._pipe.close()

    def _signal(self, number: int) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def _listen(self) -> None:
        while True:
            try:
                told = self._pipe.recv()
            except (EOFError, OSError):  # it ended, or was killed while it reported
                told = None
            with self._heard:
                self._heard.notify_all()
                if told is None:
                    return
                if isinstance(told, _Confirmed):
                    self._confirmed[told.partition].append(told.at)
                elif isinstance(told, _Joining):
                    self.joining_at = told.at
                elif isinstance(told, _Joined):
                    self.client_id = told.client_id
                else:
                    self.closing_at = told.at


def _take_part(settings: ClientSettings, group: str, topic: str, refresh_ms: int, pipe: Connection) -> None:
    """Read and confirm until something comes over the pipe, or its other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the process that started this one
    logging.getLogger("tubeclient").setLevel(logging.ERROR)  # a stopped member loses partitions, as expected
    consumer = PullConsumer(
        settings, group, [topic], membership="dynamic", start_from="earliest", balance_interval_ms=refresh_ms
    )
    pipe.send(_Joining(time.monotonic()))
    with consumer:
        pipe.send(_Joined(consumer.consumer_id))
        while not pipe.poll():
            delivery = consumer.get(timeout_ms=_GET_MS)
            if delivery is None:
                continue
            try:
                consumer.confirm(delivery)
            except (StalePack, TransportError):
                continue
            pipe.send(_Confirmed(time.monotonic(), delivery.partition))
        pipe.send(_Closing(time.monotonic()))
