"""Writes to a store that may fail, hang or be slow, on a thread of its own: of many values always the newest.

Nothing here takes a lock that a signal handler's exception could leave locked: such an exception ends the planner.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final, Generic, NamedTuple, TypeVar

_log = logging.getLogger(__name__)

T = TypeVar("T")
Answer = TypeVar("Answer")


class NoAnswer(Exception):
    """The wait is over, but the job is not; it may still end later."""


class Waits(NamedTuple):
    """How long a query waits for such a store, in seconds."""

    call: float = 60.0
    """For an answer that the query needs. delta-rs gives up earlier, with a reason."""
    end: float = 5.0
    """For the last write, at the query's end, and for a write before the next one."""
    retry: float = 5.0
    """Between two tries."""


WAITS: Final = Waits()


class LatestWriter(Generic[T]):
    """One thread that runs jobs in order, and writes the newest value of `put`. It is a daemon: a store that hangs does
    not keep the process alive.

    A write that fails is tried again until it works; the first failure is a warning that names the store, `where`.
    Successful writes are at least `interval_seconds` apart. An error of the kind `ends_by` is final.

    One thread calls the methods. Only it sets the value to write, and only the other thread sets the written value.
    """

    def __init__(
        self,
        where: str,
        write: Callable[[T], None],
        waits: Waits = WAITS,
        *,
        keeps_up: bool = False,
        interval_seconds: float = 0.0,
        ends_by: type[Exception] | tuple[()] = (),
    ) -> None:
        """With `keeps_up` a value is put when the one before is written, or after `waits.end`."""
        self._where = where
        self._write = write
        self._waits = waits
        self._keeps_up = keeps_up
        self._interval_seconds = interval_seconds
        self._ends_by = ends_by
        self._jobs: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._newest: T | None = None
        self._written: T | None = None
        self._due = float("-inf")
        """When the next write is allowed."""
        self._reason: str | None = None
        """Why the last write failed."""
        self._end: Exception | None = None
        self._hangs = False

    def call(self, job: Callable[[], Answer], wait_seconds: float) -> Answer:
        """Return what `job` returns on the thread, or raise what it raises; NoAnswer after `wait_seconds`."""
        answer: SimpleQueue[Callable[[], Answer]] = SimpleQueue()

        def answered() -> None:
            try:
                result = job()
            except BaseException as raised:  # a panic of native code is not an Exception
                error = raised

                def fail() -> Answer:
                    raise error

                answer.put(fail)
            else:
                answer.put(lambda: result)

        self._post(answered)
        try:
            found = answer.get(timeout=wait_seconds)
        except Empty:
            raise NoAnswer(f"no answer within {wait_seconds:g} s") from None
        return found()

    def check(self) -> None:
        """Raise the final error."""
        if self._end is not None:
            raise self._end

    def put(self, value: T) -> None:
        """Write `value` soon, unless a newer one comes first. Raises as `check` does."""
        self.check()
        if value is self._newest:
            return
        if self._keeps_up and self._newest is not self._written and self._reason is None and not self._hangs:
            try:
                self.call(lambda: None, self._waits.end)
            except NoAnswer:
                self._hangs = True
                _log.warning("%s has not answered for %g s, so it is falling behind", self._where, self._waits.end)
            self.check()
        self._newest = value
        self._post(self._step)

    def finish(self, wait_seconds: float) -> str | None:
        """Try now to write the newest value. Returns why it is not written, None if it is. Raises as `check` does."""
        if self._newest is self._written:
            return None
        try:
            self.call(self._write_now, wait_seconds)
        except NoAnswer as error:
            return str(error)
        self.check()
        return None if self._newest is self._written else self._reason

    def close(self) -> None:
        """End the thread after its waiting jobs; does not wait for that."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread, self._jobs = None, SimpleQueue()

    def _post(self, job: Callable[[], object]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, args=(self._jobs,), name=self._where, daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def _run(self, jobs: SimpleQueue[Callable[[], object] | None]) -> None:
        while True:
            idle = self._newest is self._written or self._end is not None
            try:
                job = jobs.get(timeout=None if idle else max(0.0, self._due - time.monotonic()))
            except Empty:
                job = self._step
            if job is None:
                return
            job()

    def _write_now(self) -> None:
        self._due = float("-inf")
        self._step()

    def _step(self) -> None:
        value = self._newest
        if value is None or value is self._written or self._end is not None or time.monotonic() < self._due:
            return
        try:
            self._write(value)
        except self._ends_by as error:
            self._end = error
        except BaseException as error:  # a panic of native code is not an Exception
            reason = str(error) or type(error).__name__
            if self._reason is None:
                _log.warning("%s was not written, so it is behind; trying again: %s", self._where, reason)
            self._reason, self._due = reason, time.monotonic() + self._waits.retry
        else:
            if self._reason is not None:
                _log.info("%s is written again", self._where)
            self._written, self._reason = value, None
            self._due = time.monotonic() + self._interval_seconds
        self._hangs = False
