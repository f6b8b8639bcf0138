"""What threads wait with. A KeyboardInterrupt leaves nothing locked and loses nothing: callers take locks only by
`with lock`, which C code runs as a whole, and wait without a lock.
"""

from __future__ import annotations

import _thread
import logging
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures._base import FINISHED, PENDING
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, TypeVar, cast

from tubeclient.errors import ClientClosed

_log = logging.getLogger(__name__)

T = TypeVar("T")


def call_back(callback: Callable[[T], object], argument: T) -> None:
    """Call `callback`, and log what it raises, SystemExit and the like too: they would end this thread, for whose work
    others wait, and not the program. On the main thread they may come from a signal, and are raised."""
    try:
        callback(argument)
    except BaseException as error:
        if not isinstance(error, Exception) and threading.current_thread() is threading.main_thread():
            raise
        _log.exception("a callback for %r failed", argument)


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
            # As long as the system takes: users may write infinity for "without an end".
            self._queue.get(timeout=min(max(0.0, seconds), threading.TIMEOUT_MAX))
            woken = True
            while True:
                self._queue.get_nowait()
        except Empty:
            return woken


class Bell:
    """Wakes all who wait for a change of a lock's data. Call `expect` and `ring` with the lock held."""

    def __init__(self) -> None:
        self._waiters: list[tuple[Alarm, Callable[[], bool]]] = []

    def ring(self) -> None:
        """Wake all waiters whose condition holds."""
        for each in list(self._waiters):
            if each[1]():
                each[0].set()  # before removing it, so that the next ring repeats an interrupted one
                self._waiters.remove(each)

    def expect(self, condition: Callable[[], bool] = lambda: True) -> Alarm:
        """What the next ring sets at which `condition` holds; wait for it without the lock."""
        waiter = Alarm()
        self._waiters.append((waiter, condition))
        return waiter

    def wait_for(self, lock: threading.Lock, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until `condition` holds; False on timeout. Waits without the lock, and checks with it."""
        until = monotonic() + seconds
        while True:
            with lock:
                if condition():
                    return True
                waiter = self.expect(condition)
            if not waiter.wait(until - monotonic()):
                with lock:
                    self._waiters = [each for each in self._waiters if each[0] is not waiter]
                    return condition()


class _OutcomeLock(_thread.RLock):  # type: ignore[misc]  # typeshed says final
    """Instead of a future's Condition, whose `__enter__` is Python: a signal's exception in it would leave the lock
    taken, and whoever settles the future would wait for ever. Nobody waits on this one."""

    __slots__ = ()

    def notify_all(self) -> None:
        pass

    def wait(self, timeout: float | None = None) -> bool:
        return False


class Outcome(Future[T]):
    """A future whose waiters hold no lock, and whose callbacks cannot end the thread that settles it. In a forked child
    it raises ClientClosed: waiting there would never end. Each has its own lock: the standard library's `wait` takes
    those of several in the order of the futures, so threads that share some would wait for each other for ever."""

    _exception = None
    _watched = False

    def __init__(self) -> None:
        # As Future's own, but without a Condition, and without lists that few need: messages come by the thousand.
        self._state = PENDING
        self._result = None
        self._condition = _OutcomeLock()  # type: ignore[assignment]
        self._process = os.getpid()

    @property
    def _waiters(self) -> list[Any]:  # type: ignore[override]
        return self._list("waiters")

    @property
    def _done_callbacks(self) -> list[Any]:
        return self._list("callbacks")

    def _list(self, name: str) -> list[Any]:
        self._check_process()  # before anybody waits in a way of the standard library's, too
        self._watched = True
        made: list[Any] = self.__dict__.setdefault(name, [])
        return made

    def result(self, timeout: float | None = None) -> T:
        if self._state == FINISHED and self._exception is None and self._process == os.getpid():
            return cast(T, self._result)  # nearly always, and by the thousand
        self._await(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._await(timeout)
        return super().exception(0)

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        # Future's own lets SystemExit end the thread that settles the others too.
        super().add_done_callback(partial(call_back, fn))

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise ClientClosed("this answer belongs to the parent process; make a new one in the child")

    def _await(self, timeout: float | None) -> None:
        self._check_process()
        if not self.done():
            over = Alarm()
            super().add_done_callback(lambda _: over.set())
            over.wait(threading.TIMEOUT_MAX if timeout is None else timeout)


def settle(outcomes: Sequence[tuple[Outcome[T], T | Exception]]) -> None:
    """As `set_result` or `set_exception` of each, which nobody may have cancelled or settled, but faster."""
    for outcome, result in outcomes:
        if isinstance(result, Exception):
            outcome.set_exception(result)
            continue
        with outcome._condition:
            outcome._result = result
            outcome._state = FINISHED
            if outcome._watched:
                for waiter in outcome._waiters:
                    waiter.add_result(outcome)
        if outcome._watched:
            outcome._invoke_callbacks()  # type: ignore[attr-defined]


class OneThread:
    """A thread for `work`, started by `ensure`. Two never run, wherever `ensure` is interrupted."""

    def __init__(self, work: Callable[[], None], name: str) -> None:
        self._name = name
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
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
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
