"""Waiting, and starting threads, such that an interrupt at any moment leaves nothing locked and nothing lost.

A KeyboardInterrupt comes between any two steps of the main thread, also within Python's own `threading`: a Condition
or a Future that is interrupted at the wrong one stays locked for good, and the threads that were to settle it hang. So
callers take locks by `with lock` alone, which C code does whole, and wait without holding any. (CPython 3.11 looks for
signals where a function starts, at a jump backward and after a call, that of `__exit__` included: all of these between
a lock's being taken and its being given back are in the block of the `with`.)
"""

from __future__ import annotations

import threading
from _thread import RLock
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TypeVar

__all__ = ["Alarm", "Bell", "Gate", "OneThread", "Outcome"]

T = TypeVar("T")


class Alarm:
    """Wakes one thread: set before it waits or meanwhile. `set` may be called by a finalizer: it takes no lock."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[None] = SimpleQueue()

    def set(self) -> None:
        self._queue.put(None)

    def wait(self, seconds: float) -> bool:
        """Whether it was set, now or before; it is not any more."""
        woken = False
        try:
            self._queue.get(timeout=max(0.0, seconds))
            woken = True
            while True:
                self._queue.get_nowait()
        except Empty:
            return woken


class Bell:
    """Wakes all who wait for a change of what a lock guards. `expect` and `ring` are called with the lock held."""

    def __init__(self) -> None:
        self._waiters: list[SimpleQueue[None]] = []

    def ring(self) -> None:
        """Wake all who expected it."""
        while self._waiters:
            self._waiters[-1].put(None)  # before it is dropped: an interrupted ring is rung again by the next
            self._waiters.pop()

    def expect(self) -> Callable[[float], bool]:
        """What to call without the lock: waits so many seconds for the next ring, and returns whether it came."""
        waiter: SimpleQueue[None] = SimpleQueue()
        self._waiters.append(waiter)

        def wait(seconds: float) -> bool:
            try:
                waiter.get(timeout=max(0.0, seconds))
            except Empty:
                return False
            return True

        return wait

    def wait_for(self, lock: threading.Lock, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait without the lock until `condition`, which is looked at with it, holds; false where it is not in time."""
        until = monotonic() + seconds
        while True:
            with lock:
                if condition():
                    return True
                wait = self.expect()
            left = until - monotonic()
            if left <= 0:
                with lock:
                    return condition()
            wait(left)


class Gate:
    """Opens once, for all who wait."""

    def __init__(self) -> None:
        self._open = False
        self._waiters: list[SimpleQueue[None]] = []

    @property
    def is_open(self) -> bool:
        return self._open

    def open(self) -> None:
        self._open = True
        for waiter in list(self._waiters):
            waiter.put(None)

    def wait(self, seconds: float | None) -> bool:
        """Whether it is open, after waiting so long for it; without an end where that is None."""
        if self._open:
            return True
        waiter: SimpleQueue[None] = SimpleQueue()
        self._waiters.append(waiter)
        try:
            if not self._open:  # else it was opened in between, and nobody may have seen the waiter
                waiter.get(timeout=None if seconds is None else max(0.0, seconds))
        except Empty:
            return self._open
        finally:
            self._waiters.remove(waiter)
        return True


class _Guard(RLock):  # type: ignore[misc]  # final in typeshed alone
    """What an Outcome has for a Condition, whose own `__enter__` is Python code: interrupted there, it stays locked."""

    def notify_all(self) -> None:
        """Nobody waits for it, but for the gate."""


class Outcome(Future[T]):
    """A future that is settled however those who look at it, or wait for it, are interrupted."""

    def __init__(self) -> None:
        super().__init__()
        self._condition = _Guard()  # type: ignore[assignment]  # all of it that a Future uses but for waiting
        self._over = Gate()

    def result(self, timeout: float | None = None) -> T:
        self._await(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._await(timeout)
        return super().exception(0)

    def _await(self, timeout: float | None) -> None:
        if not self._over.wait(timeout):
            raise FutureTimeout

    def _invoke_callbacks(self) -> None:
        self._over.open()
        super()._invoke_callbacks()  # type: ignore[misc]


class OneThread:
    """A thread for `work`: `ensure` starts it where it was not; two never work, wherever `ensure` is interrupted."""

    def __init__(self, work: Callable[[], None], name: str) -> None:
        self._name = name
        self._claim = [work]  # whoever takes it works
        self._thread: threading.Thread | None = None

    @property
    def begun(self) -> bool:
        return self._thread is not None

    @property
    def is_current(self) -> bool:
        return self._thread is threading.current_thread()

    def ensure(self) -> None:
        """Start it unless it works, or did."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            thread.start()
            if self._thread is None:
                self._thread = thread

    def join(self, seconds: float) -> None:
        """Wait for its end so long; returns at once where it was never started, and on itself."""
        if self._thread is not None and not self.is_current:
            self._thread.join(seconds)

    def _run(self) -> None:
        try:
            work = self._claim.pop()
        except IndexError:
            return
        self._thread = threading.current_thread()
        work()
