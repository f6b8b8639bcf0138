"""Writes the newest of many values to a store that may fail, hang or be slow, on a thread of its own.

Nothing here takes a lock that a signal handler's exception could leave locked: such an exception ends the planner.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final, Generic, NamedTuple, TypeVar

__all__ = ["WAITS", "Follower", "JobThread", "NoAnswer", "Waits"]

_log = logging.getLogger(__name__)

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


class Waits(NamedTuple):
    """How long a query waits for such a store, in seconds."""

    call: float = 60.0
    """For an answer that the query needs. delta-rs gives up earlier, with a reason."""
    end: float = 5.0
    """For the last write, at the query's end."""
    retry: float = 5.0
    """Between two tries in the background."""
    silence: float = 30.0
    """Until a hanging write in the background causes a warning."""


WAITS: Final = Waits()


class Follower(Generic[T]):
    """Writes values on a thread, always the newest; older waiting values are dropped.

    Nobody waits for a write: the first failure is a warning that names the store, `where`, and writes are tried again
    after `waits.retry`. A `strict` follower waits for each write, and raises its error. Successful writes are at least
    `interval_seconds` apart. An error of the kind `ends_by` is final: `check` raises it from then on.

    One thread calls the methods. Only it sets the value to write, and only the other thread sets the written value. So
    there is no lock that a signal handler's exception could leave locked.
    """

    def __init__(
        self,
        where: str,
        thread: JobThread,
        write: Callable[[T], None],
        waits: Waits = WAITS,
        *,
        interval_seconds: float = 0.0,
        strict: bool = False,
        ends_by: type[Exception] | tuple[()] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._where = where
        self._thread = thread
        self._write = write
        self._waits = waits
        self._interval_seconds = interval_seconds
        self._strict = strict
        self._ends_by = ends_by
        self._clock = clock
        self._newest: T | None = None
        self._written: T | None = None
        self._due = float("-inf")
        """When the next write is allowed."""
        self._posted = False
        self._reason: str | None = None
        """Why the last write failed."""
        self._end: Exception | None = None
        self._busy_since: float | None = None
        self._silence_told: float | None = None
        """`_busy_since` of the write that caused a warning."""

    def check(self) -> None:
        """Raise the final error; warn, once, of a hanging write."""
        if self._end is not None:
            raise self._end
        since = self._busy_since
        if since is not None and since != self._silence_told and self._clock() - since >= self._waits.silence:
            self._silence_told = since
            _log.warning("%s has not answered for %g s and stays behind", self._where, self._waits.silence)

    def follow(self, value: T | None, *, at_once: bool = False) -> None:
        """Write `value` when the interval is over, or `at_once`, unless a newer one comes first.

        Raises as `check` does. A strict follower raises the write's error, or NoAnswer if it does not end in time; it
        then drops the value, because its user ends.
        """
        self.check()
        self._newest = value
        if value is None or value is self._written or not (at_once or self._clock() >= self._due):
            return
        if self._strict:
            try:
                self._thread.call(lambda: self._write(value), self._waits.call)
            except Exception:
                self._newest = self._written
                raise
            self._written, self._due = value, self._clock() + self._interval_seconds
        elif at_once:
            self._thread.post(self._resume)
        elif not self._posted:
            self._posted = True
            self._thread.post(self._step)

    def finish(self, wait_seconds: float) -> str | None:
        """Write the waiting value and wait for it. Returns why the newest value is not written, None if it is. Raises
        as `check` does. A strict follower repeats a write that was interrupted by the process's end."""
        if self._newest is None or (self._strict and self._newest is self._written):
            return None
        try:
            self._thread.call(self._resume, wait_seconds)
        except NoAnswer as error:
            return str(error)
        self.check()
        return None if self._newest is self._written else self._reason

    def _resume(self) -> None:
        self._due = float("-inf")
        self._step()

    def _step(self) -> None:
        """Runs on the thread."""
        self._posted = False
        value = self._newest
        if value is None or value is self._written or self._end is not None or self._clock() < self._due:
            return
        self._busy_since = self._clock()
        try:
            self._write(value)
        except self._ends_by as error:
            self._end = error
        except BaseException as error:  # a panic of native code is not an Exception
            reason = str(error) or type(error).__name__
            if self._reason is None:
                _log.warning("%s was not written and stays behind; trying again: %s", self._where, reason)
            self._reason = reason
            self._pause(self._waits.retry)
        else:
            if self._reason is not None:
                _log.info("%s is written again", self._where)
            self._written, self._reason = value, None
            if self._interval_seconds > 0:
                self._pause(self._interval_seconds)
        finally:
            self._busy_since = None

    def _pause(self, seconds: float) -> None:
        self._due = self._clock() + seconds
        self._thread.repeat(self._resume, seconds)
