"""Waits and thread starts that a KeyboardInterrupt at any moment leaves intact: nothing stays locked, nothing is lost.

A KeyboardInterrupt can come between any two steps of the main thread, also inside Python's own `threading`. A Condition
or a Future interrupted at the wrong moment stays locked for good, and threads that must settle it hang. So callers take
locks only by `with lock`, which C code runs as a whole, and wait without a lock. (CPython 3.11 checks for signals where
a function starts, at a backward jump and after a call, including that of `__exit__`. Between acquire and release of a
lock, all of these are inside the `with` block.)
"""

from __future__ import annotations

import logging
import threading
from _thread import RLock
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from concurrent.futures._base import CANCELLED, CANCELLED_AND_NOTIFIED, FINISHED, PENDING
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Final, TypeVar

__all__ = ["Alarm", "Bell", "Gate", "OneThread", "Outcome", "call_back"]

_log = logging.getLogger(__name__)


def call_back(callback: Callable[[T], object], argument: T) -> None:
    """Call `callback`, and log what it raises. Others wait for what this thread does next.

    SystemExit and the like as well: they would end this thread and not the program. On the main thread they may come
    from a signal, and are raised.
    """
    try:
        callback(argument)
    except BaseException as error:
        if not isinstance(error, Exception) and threading.current_thread() is threading.main_thread():
            raise
        _log.exception("a callback for %r failed", argument)


T = TypeVar("T")


_LONGEST_SECONDS: Final = threading.TIMEOUT_MAX


def _wait_seconds(seconds: float) -> float:
    """As the system takes them: users may write infinity for "without an end"."""
    return min(max(0.0, seconds), _LONGEST_SECONDS)


class Alarm:
    """Wakes one thread, whether set before or during its wait. Finalizers may call `set`: it takes no lock."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[None] = SimpleQueue()

    def set(self) -> None:
        self._queue.put(None)

    def wait(self, seconds: float) -> bool:
        """Whether it was set, before or during the wait; resets it."""
        woken = False
        try:
            self._queue.get(timeout=_wait_seconds(seconds))
            woken = True
            while True:
                self._queue.get_nowait()
        except Empty:
            return woken


class Bell:
    """Wakes all who wait for a change of a lock's data. Call `expect`, `tell` and `ring` with the lock held."""

    def __init__(self) -> None:
        self._waiters: list[Callable[[], object]] = []

    def ring(self) -> None:
        """Wake all waiters."""
        while self._waiters:
            self._waiters[-1]()  # before removing it, so that the next ring repeats an interrupted one
            self._waiters.pop()

    def tell(self, call: Callable[[], object]) -> None:
        """Have `call` called at the next ring, on the thread that rings, with the lock held. It neither waits nor
        raises, and may be called again."""
        self._waiters.append(call)

    def expect(self) -> Callable[[float], bool]:
        """Returns a function, to be called without the lock, that waits up to so many seconds for the next ring and
        returns whether it came."""
        waiter: SimpleQueue[None] = SimpleQueue()
        self.tell(partial(waiter.put, None))

        def wait(seconds: float) -> bool:
            try:
                waiter.get(timeout=_wait_seconds(seconds))
            except Empty:
                return False
            return True

        return wait

    def wait_for(self, lock: threading.Lock, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until `condition` holds; False on timeout. Waits without the lock, and checks with it."""
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
    """Opens once and lets all waiters pass."""

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
        """Wait up to `seconds`, or without limit for None; returns whether it is open."""
        if self._open:
            return True
        waiter: SimpleQueue[None] = SimpleQueue()
        self._waiters.append(waiter)
        try:
            if not self._open:  # otherwise it opened in between, perhaps before the waiter was added
                waiter.get(timeout=None if seconds is None else _wait_seconds(seconds))
        except Empty:
            return self._open
        finally:
            self._waiters.remove(waiter)
        return True


class _Guard(RLock):  # type: ignore[misc]  # final in typeshed alone
    """An Outcome's replacement for a Condition: that one's `__enter__` is Python code and stays locked if interrupted
    there."""

    __slots__ = ()

    def notify_all(self) -> None:
        """Nothing waits on it; waiters use gates."""


_OVER = frozenset({CANCELLED, CANCELLED_AND_NOTIFIED, FINISHED})


class Outcome(Future[T]):
    """A future that is settled even if threads that check it or wait for it are interrupted."""

    def __init__(self) -> None:
        # Not by Future's own, which makes a Condition: a third of a producer's time went there.
        self._condition = _Guard()  # type: ignore[assignment]  # all of it that a Future uses but for waiting
        self._state = PENDING
        self._result = None
        self._exception = None
        self._waiters = []
        self._done_callbacks: list[Callable[[Future[T]], object]] = []
        self._gates: list[Gate] = []
        """Of the threads that wait; who settles it opens them."""

    def result(self, timeout: float | None = None) -> T:
        self._await(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._await(timeout)
        return super().exception(0)

    def _await(self, timeout: float | None) -> None:
        if self._state in _OVER:
            return
        gate = Gate()
        self._gates.append(gate)
        try:
            # Settled before the gate was there, it is over now; settled after it, the gate opens.
            if self._state not in _OVER and not gate.wait(timeout) and self._state not in _OVER:
                raise FutureTimeout
        finally:
            self._gates.remove(gate)

    def _invoke_callbacks(self) -> None:
        for gate in list(self._gates):
            gate.open()
        # Not by Future's own, which lets SystemExit end the thread that settles the others too.
        for callback in self._done_callbacks:
            call_back(callback, self)


class OneThread:
    """A thread for `work`, started by `ensure`. Two never run, wherever `ensure` is interrupted."""

    def __init__(self, work: Callable[[], None], name: str, *, daemon: bool = True) -> None:
        self._name = name
        self._daemon = daemon
        self._claim = [work]  # the thread that takes it works
        self._thread: threading.Thread | None = None

    @property
    def begun(self) -> bool:
        return self._thread is not None

    @property
    def is_current(self) -> bool:
        return self._thread is threading.current_thread()

    def ensure(self) -> None:
        """Start it unless it was started before."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=self._name, daemon=self._daemon)
            thread.start()
            if self._thread is None:
                self._thread = thread

    def join(self, seconds: float) -> None:
        """Wait up to `seconds` for its end; returns at once if it was never started, and on that thread."""
        if self._thread is not None and not self.is_current:
            self._thread.join(seconds)

    def _run(self) -> None:
        try:
            work = self._claim.pop()
        except IndexError:
            return
        self._thread = threading.current_thread()
        work()
