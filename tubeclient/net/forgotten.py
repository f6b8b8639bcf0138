"""Clients that nobody closes: once they are garbage-collected, or the program ends, what they took is delivered, their
resources are closed, and a warning says so.

Python may finalize an object at any moment, in any thread, perhaps under a lock. So the finalizer only puts a note into
a queue that takes no lock anybody holds. A program's end waits for all threads but daemons. The thread that watches is
none: once no other is left, it waits until messages are delivered, and closes what is left.
"""

from __future__ import annotations

import logging
import threading
import warnings
import weakref
from collections.abc import Callable
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Final

from tubeclient.net.fork import ProcessBound

_log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.25
_EXIT_SECONDS: Final = 10.0
"""How long the end of a program waits for messages, over all clients."""
_CLOSE_SECONDS: Final = 1.0
"""How much longer it waits for clients to close."""
_THREAD: Final = "tubeclient-forgotten"


class Watch:
    """Between `begin` and `end`, calls `close` once `thing` is garbage-collected, on a thread, or the program ends.

    `deliver` comes before: it waits up to some seconds, and says whether all is settled. `what` names the thing in the
    warning. The thing holds its watch; the functions and their data must not refer to the thing.
    """

    def __init__(
        self,
        thing: object,
        what: str,
        close: Callable[[], None],
        deliver: Callable[[float], bool] = lambda _: True,
    ) -> None:
        self.deliver = deliver
        self._what = what
        self._close = close
        self._thing = weakref.ref(thing, lambda _: _watches.notes.put(self))

    def begin(self) -> None:
        """Start watching; may be called again."""
        _watches.add(self)

    def end(self) -> None:
        """The thing was closed: stop watching."""
        _watches.drop(self)

    def close(self, event: str) -> None:
        """Called after that event, on a thread of ours."""
        _log.warning("%s was not closed before %s; closing its resources now", self._what, event)
        try:
            self._close()
        except Exception:
            _log.exception("%s could not be closed", self._what)
        self.end()
        try:
            warnings.warn(f"{self._what} was never closed; use it in a with statement", ResourceWarning, stacklevel=2)
        except ResourceWarning:
            _log.exception("as warnings are errors here")


def _program_is_over() -> bool:
    """Whether only daemon threads are left, and those that watch."""
    return not any(one.is_alive() and not one.daemon and one.name != _THREAD for one in threading.enumerate())


class _Watches(ProcessBound):
    """All watches of the process, and their thread, which ends with the last of them."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: SimpleQueue[Watch | None] = SimpleQueue()
        self._lock = threading.Lock()  # never taken in a finalizer
        self._open: set[Watch] = set()
        self._thread: threading.Thread | None = None

    def add(self, watch: Watch) -> None:
        with self._lock:
            self._open.add(watch)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name=_THREAD, daemon=False)
                self._thread.start()

    def drop(self, watch: Watch) -> None:
        with self._lock:
            self._open.discard(watch)
        self.notes.put(None)  # so that the thread looks

    def _serve(self) -> None:
        while not _program_is_over():
            with self._lock:
                if not self._open:
                    self._thread = None
                    return
            try:
                watch = self.notes.get(timeout=_LOOK_SECONDS)
            except Empty:
                continue
            while watch in self._open and not _program_is_over():
                if watch.deliver(_LOOK_SECONDS):
                    watch.close("it was garbage-collected")
        self._close_all(monotonic() + _EXIT_SECONDS)

    def _close_all(self, until: float) -> None:
        """Each on a thread that ends with the program: no server and no callback holds that up."""
        with self._lock:
            left = list(self._open)
        for watch in left:
            watch.deliver(max(0.0, until - monotonic()))
        closers = [threading.Thread(target=watch.close, args=("the program ended",), daemon=True) for watch in left]
        for closer in closers:
            closer.start()
        for closer in closers:
            closer.join(max(0.0, until + _CLOSE_SECONDS - monotonic()))

    def _let_go(self) -> None:
        global _watches
        _watches = _Watches()


_watches = _Watches()


def weakly(method: Callable[..., None]) -> Callable[..., None]:
    """A bound method with a weak reference to its object; does nothing once the object is gone."""
    known: weakref.WeakMethod[Any] = weakref.WeakMethod(method)

    def call(*arguments: object) -> None:
        present = known()
        if present is not None:
            present(*arguments)

    return call
