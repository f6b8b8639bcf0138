"""Stand-ins for threads, clocks, queues and random numbers, and what puts them into the product's modules.

A module is left as it is but for the names that it imported from Python's own: `threading`, `time`, `random` and so on.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import datetime as real_datetime
import queue
import random
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType, SimpleNamespace
from typing import Any

from tests.simulation.hub import EPOCH_SECONDS, Fiber, Hub

__all__ = ["current", "install", "set_hub"]

PRODUCT = ("tubeclient", "spark_source", "offsets_store", "tubeclient_ingest")

_hub: Hub | None = None


def set_hub(hub: Hub) -> None:
    """Let the stand-ins work with this hub from now on."""
    global _hub
    _hub = hub


def current() -> Hub:
    assert _hub is not None
    return _hub


# Queues and locks

_MOST_WAITERS = 1_000
"""Of a queue. Those whose time was over stay until something comes; more are too many for a day of virtual time."""


class SimpleQueue:
    """queue.SimpleQueue."""

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._waiters: deque[tuple[Fiber, object]] = deque()

    def __class_getitem__(cls, _: Any) -> Any:
        return cls

    def put(self, item: Any) -> None:
        self._items.append(item)
        while self._waiters:
            current().wake(*self._waiters.popleft())

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        hub = current()
        until = None if timeout is None else hub.now + timeout
        while not self._items:
            left = None if until is None else until - hub.now
            if not block or (left is not None and left <= 0):
                raise queue.Empty
            token = hub.expect()
            self._waiters.append((hub.fiber, token))
            if len(self._waiters) > _MOST_WAITERS:
                self._waiters = deque(one for one in self._waiters if one[0].token is one[1])
            hub.wait(token, left)
        return self._items.popleft()

    def get_nowait(self) -> Any:
        return self.get(block=False)


class Lock:
    """threading.Lock, and with `reentrant` an RLock."""

    reentrant = False

    def __init__(self) -> None:
        self._owner: object = None
        self._depth = 0
        self._waiters: deque[tuple[Fiber, object]] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        hub = current()
        me: object = hub.fiber if hub.in_fiber else hub
        while self._owner is not None and not (self.reentrant and self._owner is me):
            if not blocking:
                return False
            token = hub.expect()
            self._waiters.append((hub.fiber, token))
            hub.wait(token, None)
        self._owner = me
        self._depth += 1
        return True

    def release(self) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = None
            if self._waiters:
                current().wake(*self._waiters.popleft())

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class RLock(Lock):
    """threading.RLock."""

    reentrant = True


class Event:
    """threading.Event."""

    def __init__(self) -> None:
        self._set = False
        self._told: list[tuple[Fiber, object]] = []

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        told, self._told = self._told, []
        for fiber, token in told:
            current().wake(fiber, token)

    def wait(self, timeout: float | None = None) -> bool:
        hub = current()
        if not self._set:
            token = hub.expect()
            self._told.append((hub.fiber, token))
            hub.wait(token, timeout)
        return self._set


# Threads


class Thread:
    """threading.Thread."""

    def __init__(
        self,
        target: Callable[..., Any],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        name: str = "",
        daemon: bool = True,
    ) -> None:
        self._work = lambda: target(*args, **(kwargs or {}))
        self.name = name
        self._fiber: Fiber | None = None

    def start(self) -> None:
        hub = current()
        hub.check()
        self._fiber = hub.process.run(self._work, self.name)
        self._fiber.thread = self  # type: ignore[attr-defined]

    def join(self, timeout: float | None = None) -> None:
        if self._fiber is not None:
            current().join(self._fiber, timeout)

    def is_alive(self) -> bool:
        return self._fiber is not None and not self._fiber.done


def _current_thread() -> Any:
    hub = current()
    return getattr(hub.fiber, "thread", hub.fiber) if hub.in_fiber else hub


class ThreadPoolExecutor:
    """concurrent.futures.ThreadPoolExecutor; each job has a fiber of its own, and at most so many run."""

    def __init__(self, max_workers: int = 8, thread_name_prefix: str = "") -> None:
        self._free = max_workers
        self._name = thread_name_prefix
        self._left: deque[tuple[Any, Callable[[], Any]]] = deque()

    def submit(self, call: Callable[..., Any], /, *args: Any) -> Any:
        from tubeclient.net.waiting import Outcome

        current().check()
        future: Any = Outcome()
        self._left.append((future, lambda: call(*args)))
        if self._free:
            self._free -= 1
            current().process.run(self._work, self._name)
        return future

    def _work(self) -> None:
        while self._left:
            future, call = self._left.popleft()
            try:
                result = call()
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)
        self._free += 1

    def map(self, call: Callable[..., Any], *items: Iterable[Any]) -> Iterator[Any]:
        futures = [self.submit(call, *each) for each in zip(*items, strict=False)]
        return (future.result() for future in futures)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if cancel_futures:
            self._left.clear()

    def __enter__(self) -> ThreadPoolExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()


def _wait_all(futures: Iterable[Any]) -> None:
    for future in futures:
        future.exception()


# Clocks and random numbers


def _monotonic() -> float:
    return current().now + 1_000.0


def _wall() -> float:
    hub = current()
    return EPOCH_SECONDS + hub.now + (hub.process.skew_seconds if hub.in_fiber else 0.0)


class _DateTime(real_datetime.datetime):
    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return real_datetime.datetime.fromtimestamp(_wall(), tz)


def _new_random(*seed: Any) -> random.Random:
    return random.Random(*seed) if seed else random.Random(current().random.getrandbits(32))


_TIME = SimpleNamespace(
    monotonic=_monotonic,
    time=_wall,
    time_ns=lambda: int(_wall() * 1e9),
    perf_counter=_monotonic,
    sleep=lambda seconds: current().sleep(seconds),
)
# Whoever waits for the end of the program waits for it: no process of the simulation ends by itself.
_MAIN = SimpleNamespace(is_alive=lambda: True, daemon=False, join=lambda: Event().wait())
_THREADING = SimpleNamespace(
    Thread=Thread,
    Lock=Lock,
    RLock=RLock,
    Event=Event,
    current_thread=_current_thread,
    main_thread=lambda: None,
    TIMEOUT_MAX=threading.TIMEOUT_MAX,
    enumerate=lambda: [_MAIN],
    get_ident=lambda: id(_current_thread()),
)
_RANDOM = SimpleNamespace(
    Random=_new_random,
    SystemRandom=_new_random,
    random=lambda: current().random.random(),
    randrange=lambda *of: current().random.randrange(*of),
)
_UUID = SimpleNamespace(uuid4=lambda: uuid.UUID(int=current().random.getrandbits(128), version=4), UUID=uuid.UUID)
_ATEXIT = SimpleNamespace(register=lambda *_: None, unregister=lambda *_: None)

_INSTEAD: dict[int, Any] = {
    id(real): instead
    for real, instead in (
        (threading, _THREADING),
        (time, _TIME),
        (random, _RANDOM),
        (uuid, _UUID),
        (atexit, _ATEXIT),
        (time.monotonic, _monotonic),
        (time.time_ns, _TIME.time_ns),
        (queue.SimpleQueue, SimpleQueue),
        (concurrent.futures.ThreadPoolExecutor, ThreadPoolExecutor),
        (concurrent.futures.wait, _wait_all),
    )
}
_TELLS_THE_DAY = ("spark_source.stream.group_position", "tubeclient_ingest.run")
"""Modules that ask `datetime` for the time. Others only compare and convert."""


def _replace_defaults(function: Any) -> None:
    """Put the stand-ins in place of default arguments, such as `clock=time.monotonic`."""
    if not isinstance(function, FunctionType):
        return
    if function.__defaults__:
        function.__defaults__ = tuple(_INSTEAD.get(id(one), one) for one in function.__defaults__)
    if function.__kwdefaults__:
        function.__kwdefaults__ = {name: _INSTEAD.get(id(one), one) for name, one in function.__kwdefaults__.items()}


def install() -> None:
    """Put the stand-ins into every product module that is imported. For the rest of the process's life."""
    for name, module in sorted(sys.modules.items()):
        if name.partition(".")[0] not in PRODUCT or module is None:
            continue
        for attribute, value in list(vars(module).items()):
            instead = _INSTEAD.get(id(value))
            if instead is not None and not attribute.startswith("__"):
                setattr(module, attribute, instead)
            elif getattr(value, "__module__", None) == name:
                for function in (value, *(vars(value).values() if isinstance(value, type) else ())):
                    _replace_defaults(getattr(function, "__func__", function))
    for name in _TELLS_THE_DAY:
        if name in sys.modules:
            setattr(sys.modules[name], "datetime", _DateTime)  # noqa: B010 - a module's name
