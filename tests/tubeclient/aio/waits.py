"""What the tests of coroutines wait with: servers that are silent for a while, tasks that are cancelled at a wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from embedded_tubemq.broker.broker import Broker
from embedded_tubemq.cluster import EmbeddedTubeMQ

__all__ = ["CancelledAt", "silent", "while_silent"]

T = TypeVar("T")

TICKS = 30
SILENT_SECONDS = 20.0


@contextmanager
def silent(cluster: EmbeddedTubeMQ) -> Iterator[Callable[[], None]]:
    """No server of the cluster answers until what this gives is called. AssertionError if it never was."""
    begun, over = threading.Event(), threading.Event()

    def hold(_: Broker) -> bool:
        begun.set()
        return over.wait(SILENT_SECONDS)

    with ThreadPoolExecutor(1) as thread:
        holding = thread.submit(cluster.inspect, hold)
        assert begun.wait(20)
        try:
            yield over.set
        except BaseException:
            over.set()
            raise
        assert holding.result(60), "the loop stood still while the servers were silent"


async def while_silent(cluster: EmbeddedTubeMQ, work: Coroutine[Any, Any, T]) -> T:
    """Run `work` while no server answers. They answer again once another task had its turn many times."""
    with silent(cluster) as end:
        task = asyncio.create_task(work)
        for _ in range(TICKS):
            await asyncio.sleep(0.01)
        assert not task.done()
        end()
    return await task


class CancelledAt:
    """Awaits `work`, and cancels it at its so manieth wait, counted from 0. The result is what it returns, or None if
    it was cancelled."""

    def __init__(self, number: int, work: Coroutine[Any, Any, T]) -> None:
        self._left = number
        self._work = work
        self.cancelled = False

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._work.__await__()
        try:
            while True:
                future = next(steps)
                if self._left == 0:
                    self.cancelled = True
                    steps.throw(asyncio.CancelledError())
                    raise AssertionError("it went on")
                self._left -= 1
                yield future
        except StopIteration as stop:
            return stop.value
        except asyncio.CancelledError:
            return None
