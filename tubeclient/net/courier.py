"""The send thread of one broker. It connects and writes, so that a slow broker does not delay messages to others."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from tubeclient.errors import TransportError, TubeError
from tubeclient.net.connection import Connection
from tubeclient.net.waiting import Alarm

T = TypeVar("T")

_IDLE_SECONDS = 10.0
_PARCELS_PER_WRITE = 200


def fault_of(error: Exception, address: str) -> TubeError:
    """`error` as a TubeError. Any other error counts as temporary: the system may be out of threads or memory."""
    if isinstance(error, TubeError):
        return error
    fault = TransportError(f"sending to {address} failed: {error!r}", address=address)
    fault.__cause__ = error
    return fault


class Courier(Generic[T]):
    """Calls `write(connection, parcels)` for the parcels of `put`, in order, on connections of `connect(address)`.

    If either raises, `fail(parcel, error)` gets each affected parcel; without a connection, all waiting ones. All three
    run on the courier's own thread, which ends after 10 s without parcels.
    """

    def __init__(
        self,
        address: str,
        connect: Callable[[str], Connection],
        write: Callable[[Connection, Sequence[T]], None],
        fail: Callable[[T, TubeError], None],
    ) -> None:
        self._address = address
        self._connect = connect
        self._write = write
        self._fail = fail
        self._lock = threading.Lock()  # guards the waiting parcels and the thread
        self._waiting: deque[T] = deque()
        self._thread: threading.Thread | None = None
        self._alarm = Alarm()
        self._stopped = False

    def put(self, parcels: Sequence[T]) -> None:
        """Queue parcels, without waiting for the broker. RuntimeError if no thread can be started; then none is
        queued."""
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._work, name=f"tubeclient-send-{self._address}", daemon=True)
                thread.start()  # it waits for the lock first
                self._thread = thread
            self._waiting.extend(parcels)
        self._alarm.set()

    def stop(self) -> None:
        """End the thread as soon as it returns from the broker; waiting parcels stay."""
        self._stopped = True
        self._alarm.set()

    def join(self, seconds: float) -> None:
        """Wait up to `seconds` for the thread's end; returns at once on that thread."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(seconds)

    def _work(self) -> None:
        while self._has_work():
            self._take_turn()  # in a function, so that its locals are freed before the next wait

    def _take_turn(self) -> None:
        parcels: list[T] = []
        try:
            connection = self._connect(self._address)
            parcels = self._take(_PARCELS_PER_WRITE)
            self._write(connection, parcels)
        except Exception as error:  # any error ends only these parcels' attempt
            fault = fault_of(error, self._address)
            for parcel in parcels or self._take(len(self._waiting)):
                self._fail(parcel, fault)

    def _has_work(self) -> bool:
        """Wait for work; False if the thread must end."""
        while True:
            with self._lock:
                if self._stopped:
                    return False
                if self._waiting:
                    return True
            if not self._alarm.wait(_IDLE_SECONDS):
                with self._lock:
                    if not self._waiting:
                        self._thread = None  # the next parcels start another
                        return False

    def _take(self, count: int) -> list[T]:
        with self._lock:
            return [self._waiting.popleft() for _ in range(min(count, len(self._waiting)))]
