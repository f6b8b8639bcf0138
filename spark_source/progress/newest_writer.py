"""Writing the newest of many values in the background, to a store that may fail, hang or be slow."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from spark_source.progress.job_thread import JobThread, NoAnswer

__all__ = ["NewestWriter"]

_log = logging.getLogger(__name__)

T = TypeVar("T")


class NewestWriter(Generic[T]):
    """Writes values on a thread, the newest at each time; older ones that wait are dropped.

    A failure is one warning, `trouble` with its reason behind it, and tried again after `retry_seconds`; when a write
    works after that, `relief` is told. Between two writes that work lie `every_seconds` at least.
    """

    def __init__(
        self,
        thread: JobThread,
        write: Callable[[T], None],
        *,
        trouble: str,
        relief: str,
        retry_seconds: float,
        every_seconds: float = 0.0,
    ) -> None:
        self._thread = thread
        self._write = write
        self._trouble = trouble
        self._relief = relief
        self._retry_seconds = retry_seconds
        self._every_seconds = every_seconds
        self._lock = threading.Lock()
        self._waiting: T | None = None
        self._pausing = False
        self._reason: str | None = None
        """Why the last write failed."""

    def put(self, value: T) -> None:
        """Write `value` soon, unless a newer one comes before."""
        with self._lock:
            self._waiting = value
        self._thread.post(self._step)

    def finish(self, patience_seconds: float) -> str | None:
        """Wait until the newest value is written; returns why it is not, None if it is."""
        try:
            self._thread.call(self._resume, patience_seconds)
        except NoAnswer as error:
            return str(error)
        return None if self._waiting is None else self._reason

    def _step(self) -> None:
        if self._pausing:
            return
        with self._lock:
            value, self._waiting = self._waiting, None
        if value is None:
            return
        try:
            self._write(value)
        except BaseException as error:  # a panic of native code is no Exception
            with self._lock:
                self._waiting = value if self._waiting is None else self._waiting
            if self._reason is None:
                _log.warning("%s: %s", self._trouble, str(error) or type(error).__name__)
            self._reason = str(error) or type(error).__name__
            self._pause(self._retry_seconds)
        else:
            if self._reason is not None:
                _log.info("%s", self._relief)
            self._reason = None
            if self._every_seconds > 0:
                self._pause(self._every_seconds)

    def _pause(self, seconds: float) -> None:
        self._pausing = True
        self._thread.repeat(self._resume, seconds)

    def _resume(self) -> None:
        self._pausing = False
        self._step()
