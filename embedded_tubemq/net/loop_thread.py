"""An asyncio loop on its own thread, and calls into it from other threads. Every wait has an end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

__all__ = ["LoopThread"]

T = TypeVar("T")

CALL_SECONDS = 30.0


class LoopThread:
    """Runs from its construction to `stop`."""

    def __init__(self, name: str) -> None:
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = self._runner.get_loop()
        self._stopped = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and return its result. TimeoutError after 30 s."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(CALL_SECONDS)
        except TimeoutError:
            future.cancel()
            raise

    def call(self, work: Callable[[], T]) -> T:

        async def run() -> T:
            return work()

        return self.run(run())

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(CALL_SECONDS)

    def _run(self) -> None:
        with self._runner:
            self._runner.run(self._until_stopped())

    async def _until_stopped(self) -> None:
        await self._stopped.wait()
