"""Looks that may fail or hang: the last good answer, how old it is, and why there is nothing newer.

A look runs in a thread of its own, on demand and never twice at the same time. Nobody waits for it longer than they
want to.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from tubeclient_cli.dashboard.facts import Source

__all__ = ["Incomplete", "Look"]

T = TypeVar("T")


class Incomplete(Exception):
    """A look's `answer` without what could not be read; the text says what that is."""

    def __init__(self, answer: Any, text: str) -> None:
        super().__init__(text)
        self.answer = answer


class Look(Generic[T]):
    """`look` returns the answer, or raises with a text for the user: Incomplete if it has an answer all the same.
    Thread-safe.

    It begins at most every `period_s`. Past `deadline_s` it counts as failed until it ends.
    """

    def __init__(
        self,
        name: str,
        place: str,
        look: Callable[[], T],
        explain: Callable[[Exception], str],
        *,
        period_s: float,
        deadline_s: float,
    ) -> None:
        self.name = name
        self._place = place
        self._look = look
        self._explain = explain
        self._period_s = period_s
        self._deadline_s = deadline_s
        self._lock = threading.Lock()
        self._idle = threading.Event()
        self._idle.set()
        self._began: float | None = None
        self._answer: T | None = None
        self._as_of_ms: int | None = None
        self._failure: str | None = None

    def begin(self) -> None:
        """Begin a look if one is due."""
        with self._lock:
            now = time.monotonic()
            if not self._idle.is_set() or (self._began is not None and now - self._began < self._period_s):
                return
            self._began = now
            self._idle.clear()
        # A look that hangs does not keep the process alive.
        threading.Thread(target=self._run, name=f"tubeclient-dashboard-{self.name}", daemon=True).start()

    def wait(self, timeout_s: float) -> None:
        """Wait for the look under way, at most so long."""
        self._idle.wait(max(0.0, timeout_s))

    @property
    def answer(self) -> T | None:
        """The newest answer; None before the first."""
        return self._answer

    @property
    def source(self) -> Source:
        """What the page says about this look."""
        with self._lock:
            failure = self._failure
            if not self._idle.is_set() and self._began is not None:
                taken_s = time.monotonic() - self._began
                if taken_s >= self._deadline_s:
                    failure = f"no answer for {taken_s:.0f} s"
            return Source(self.name, self._place, self._as_of_ms, failure)

    def _run(self) -> None:
        answer: T | None = None
        failure: str | None = None
        answered = True
        began_ms = time.time_ns() // 1_000_000
        try:
            answer = self._look()
        except Incomplete as error:
            answer, failure = error.answer, self._explain(error)
        except Exception as error:  # whatever it is, the page says it and goes on
            failure, answered = self._explain(error), False
        with self._lock:
            if answered:
                self._answer = answer
                self._as_of_ms = began_ms
            self._failure = failure
            self._idle.set()
