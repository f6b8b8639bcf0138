"""`embedded_tubemq` in a process of its own, which fills its topics itself: much faster than to send to it."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Final, NamedTuple

from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from tubeclient import ClientSettings
from tubeclient.keys import MAX_STORE_PARTITIONS

__all__ = ["Backlog", "embedded_backlogs"]

_AT_ONCE: Final = 50_000
_READY_SECONDS: Final = 300.0
_STOP_SECONDS: Final = 60.0


class Backlog(NamedTuple):
    """A topic, and the number and length of its messages. Its partitions get them in turn."""

    topic: TopicConfig
    messages: int
    body_bytes: int


@contextmanager
def embedded_backlogs(backlogs: Sequence[Backlog]) -> Iterator[ClientSettings]:
    """Start one broker with these topics, and return how to reach it. RuntimeError: not within 300 s, or its process
    died."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, list(backlogs)), daemon=True)
    process.start()
    theirs.close()
    try:
        try:
            if not ours.poll(_READY_SECONDS):
                raise RuntimeError(f"embedded_tubemq was not filled within {_READY_SECONDS:.0f} s")
            settings: ClientSettings = ours.recv()
        except EOFError as error:
            raise RuntimeError("embedded_tubemq's process ended; what it said is above") from error
        yield settings
    finally:
        ours.close()  # which ends it
        process.join(_STOP_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()


def _serve(parent: Connection, backlogs: Sequence[Backlog]) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the folder goes too
    with (
        tempfile.TemporaryDirectory(prefix="tubeclient-bench-") as folder,
        EmbeddedTubeMQ(folder, [one.topic for one in backlogs]) as tube,
    ):
        for topic, messages, body_bytes in backlogs:
            ids = [
                store * MAX_STORE_PARTITIONS + number
                for store in range(topic.stores)
                for number in range(topic.partitions)
            ]
            for first in range(0, messages, _AT_ONCE):
                numbers = range(first, min(first + _AT_ONCE, messages))
                tube.load(topic.name, [NewMessage(ids[n % len(ids)], b"%0*d" % (body_bytes, n)) for n in numbers])
        parent.send(ClientSettings((tube.master_address,), master_web_port=tube.master_web_port))
        try:
            parent.recv()
        except EOFError:  # the other end was closed
            return
