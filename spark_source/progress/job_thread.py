"""A thread for a store that may be slow, or never answer; callers choose how long they wait.

Nothing here takes a lock that a signal handler's exception could leave locked: such an exception ends the planner.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeVar

__all__ = ["JobThread", "NoAnswer"]

T = TypeVar("T")


class NoAnswer(Exception):
    """The wait is over, but the job is not; it may still end later."""


class JobThread:
    """One thread, started by the first job, that runs jobs in order.

    It is a daemon: a hanging job does not keep the process alive.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._again: tuple[float, Callable[[], object]] | None = None

    def call(self, job: Callable[[], T], wait_seconds: float) -> T:
        """Return what `job` returns, or raise what it raises; NoAnswer after `wait_seconds`."""
        answer: SimpleQueue[Callable[[], T]] = SimpleQueue()

        def answered() -> None:
            try:
                result = job()
            except BaseException as raised:  # a panic of native code is not an Exception
                error = raised

                def fail() -> T:
                    raise error

                answer.put(fail)
            else:
                answer.put(lambda: result)

        self.post(answered)
        try:
            told = answer.get(timeout=wait_seconds)
        except Empty:
            raise NoAnswer(f"no answer within {wait_seconds:g} s") from None
        return told()

    def post(self, job: Callable[[], object]) -> None:
        """Run `job` on the thread, without waiting. It must not raise."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, args=(self._jobs,), name=self._name, daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def repeat(self, job: Callable[[], object], after_seconds: float) -> None:
        """Run `job` after that time, instead of an earlier `job` of this method. Only for jobs on the thread."""
        self._again = time.monotonic() + after_seconds, job

    def close(self) -> None:
        """End the thread after its waiting jobs; does not wait for that."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread, self._jobs = None, SimpleQueue()

    def _run(self, jobs: SimpleQueue[Callable[[], object] | None]) -> None:
        while True:
            again = self._again
            try:
                job = jobs.get(timeout=None if again is None else max(0.0, again[0] - time.monotonic()))
            except Empty:
                assert again is not None
                self._again, job = None, again[1]
            if job is None:
                return
            job()
