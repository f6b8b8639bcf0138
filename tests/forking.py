"""Runs work in a forked child with a time limit; a failure there fails the test."""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections.abc import Callable

from tests.waiting import wait_for

MULTI_THREADED = "ignore:This process .* is multi-threaded, use of fork:DeprecationWarning"
"""What Python from 3.12 on says to such a fork. These tests are about it."""

_PIPE_BYTES = 60_000  # less than a pipe holds, so that a child never waits for its reader


def in_child(work: Callable[[], None], *, fork: Callable[[], int] = os.fork, seconds: float = 30.0) -> None:
    """Fork, run `work` in the child alone, and end the child without any of Python's clean-up."""
    report, told = os.pipe()
    child = fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            os.write(told, traceback.format_exc().encode()[-_PIPE_BYTES:])
        finally:
            os._exit(status)
    os.close(told)
    ended: list[int] = []

    def has_ended() -> bool:
        pid, status = os.waitpid(child, os.WNOHANG)
        ended.extend([status] if pid else [])
        return bool(ended)

    try:
        wait_for(has_ended, "a forked child to end", seconds=seconds)
        with os.fdopen(report, "rb") as text:
            said = text.read().decode()
    finally:
        if not ended:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    assert ended == [0], said


class Held:
    """Locks that some other thread of this process holds: `with Held(locks): fork`."""

    def __init__(self, locks: list[threading.Lock]) -> None:
        self._locks = locks
        self._all_held = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._hold, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()
        assert self._all_held.wait(20), "some lock is never free"

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(10)

    def _hold(self) -> None:
        if not all(lock.acquire(timeout=10) for lock in self._locks):
            return
        self._all_held.set()
        self._over.wait(60)
        for lock in self._locks:
            lock.release()
