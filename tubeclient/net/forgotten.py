"""Clients that were garbage-collected without being closed: a thread closes their resources and logs a warning.

Python may finalize an object at any moment, in any thread, perhaps under a lock. So the finalizer only puts a note into
a queue that takes no lock anybody holds.
"""

from __future__ import annotations

import gc
import logging
import threading
import warnings
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from tubeclient.net.fork import ProcessBound
from tubeclient.net.waiting import OneThread

__all__ = ["Watch", "alive", "weakly"]

_log = logging.getLogger(__name__)

_JOIN_SECONDS = 15.0


class Watch:
    """Between `begin` and `end`, calls `close` on its own thread once `thing` is garbage-collected.

    `what` names the thing in the warning. The thing holds its watch; `close` and its data must not refer to the thing.
    """

    def __init__(self, thing: object, what: str, close: Callable[[], None]) -> None:
        self.what = what
        self._close = close
        self._shift: _Shift | None = None
        self.thing = weakref.ref(thing, self._gone)

    def begin(self) -> None:
        """Start watching; may be called again."""
        self._shift = _watches.begin(self, self._shift)
        self._shift.thread.ensure()

    def end(self) -> None:
        """The thing was closed: stop watching."""
        if self._shift is not None:
            _watches.end(self, self._shift)

    def _gone(self, _: object) -> None:
        if self._shift is not None:
            self._shift.notes.put(self)

    def close(self) -> None:
        """Called after the thing was garbage-collected."""
        _log.warning("%s was not closed before it was garbage-collected; closing its resources now", self.what)
        try:
            self._close()
        except Exception:
            _log.exception("%s could not be closed", self.what)
        try:
            warnings.warn(f"{self.what} was never closed; use it in a with statement", ResourceWarning, stacklevel=2)
        except ResourceWarning:
            _log.exception("as warnings are errors here")


class _Shift:
    """A thread and its watches; it ends with the last of them."""

    def __init__(self) -> None:
        self.notes: SimpleQueue[Watch | None] = SimpleQueue()
        self.watches: dict[int, Watch] = {}
        self.thread = OneThread(self._serve, "tubeclient-forgotten")

    def _serve(self) -> None:
        while (watch := self.notes.get()) is not None:
            if id(watch) in self.watches:  # otherwise it was closed at the last moment
                watch.close()
                _watches.end(watch, self)


class _Watches(ProcessBound):
    """All watches of the process."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()  # never taken in a finalizer
        self._shift: _Shift | None = None

    def begin(self, watch: Watch, known: _Shift | None) -> _Shift:
        with self._lock:
            shift = known or self._shift
            if shift is None:
                shift = self._shift = _Shift()
            shift.watches[id(watch)] = watch
            return shift

    def end(self, watch: Watch, shift: _Shift) -> None:
        with self._lock:
            shift.watches.pop(id(watch), None)  # may be gone already: an interrupted caller comes here again
            if shift.watches:
                return
            if self._shift is shift:
                self._shift = None
        shift.notes.put(None)
        shift.thread.join(_JOIN_SECONDS)

    def of(self, what: str) -> bool:
        with self._lock:
            watches = list(self._shift.watches.values()) if self._shift is not None else []
        return any(watch.what == what and watch.thing() is not None for watch in watches)

    def _let_go(self) -> None:
        global _watches
        _watches = _Watches()


_watches = _Watches()


def alive(what: str) -> bool:
    """Whether this process still holds another thing of that name; collects reference cycles first."""
    if not _watches.of(what):
        return False
    gc.collect()
    return _watches.of(what)


def weakly(method: Callable[..., None]) -> Callable[..., None]:
    """A bound method with a weak reference to its object; does nothing once the object is gone."""
    known: weakref.WeakMethod[Any] = weakref.WeakMethod(method)

    def call(*arguments: object) -> None:
        present = known()
        if present is not None:
            present(*arguments)

    return call
