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
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run_forever, name=name, daemon=True)
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
        """Call a function on the loop's thread and return its result."""

        async def run() -> T:
            return work()

        return self.run(run())

    def stop(self) -> None:
        """End the loop and the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_SECONDS)

    def _run_forever(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._cancel_rest())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            # Name look-ups start threads that would outlive the loop.
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    async def _cancel_rest(self) -> None:
        rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
