"""Clients that nobody closes: the end of the program closes them, or their garbage collection, with a warning.

A program's end waits for all threads but daemons. So one that is none waits for all others, and closes what is left.
`atexit` would not do: it comes in no child of multiprocessing's.
"""

from __future__ import annotations

import _thread
import logging
import os
import threading
import weakref
from collections.abc import Callable
from time import monotonic
from typing import Any, Final

_log = logging.getLogger(__name__)

_END_SECONDS: Final = 11.0
"""How long the end of a program waits for clients to close, all together."""

_lock = threading.Lock()  # never taken in a finalizer
_open: set[Watch] = set()
_ending: threading.Thread | None = None


class Watch:
    """Between `begin` and `end`, calls `close` once the program ends, or `thing` is garbage-collected. `what` names it
    in the warning. The function and its data must not refer to the thing."""

    def __init__(self, what: str, close: Callable[[], None], thing: object = None) -> None:
        self._what = what
        self._close = close
        self._thing = None if thing is None else weakref.ref(thing, self._collected)

    def begin(self) -> None:
        """Start watching; may be called again."""
        global _ending
        _open.add(self)
        with _lock:
            if _ending is None:
                _ending = threading.Thread(target=_close_at_end, name="end of tubeclient", daemon=False)
                _ending.start()

    def end(self) -> None:
        """The client was closed: stop watching."""
        _open.discard(self)

    def _collected(self, _: object) -> None:
        # Python may come here at any moment, in any thread, perhaps under a lock. So this takes none.
        if self in _open:
            _thread.start_new_thread(self.close, ("it was garbage-collected",))

    def close(self, event: str) -> None:
        """Called after that event, on a thread of its own."""
        _log.warning("%s was not closed before %s; it is closed now. Use it in a with statement", self._what, event)
        try:
            self._close()
        except Exception:
            _log.exception("%s could not be closed", self._what)
        self.end()


def _close_at_end() -> None:
    while others := [
        thread for thread in threading.enumerate() if thread.is_alive() and not thread.daemon and thread is not _ending
    ]:
        others[0].join()
    # Each on a thread that ends with the program: no server and no callback holds that up.
    closers = []
    until = monotonic() + _END_SECONDS
    for watch in list(_open):
        closer = threading.Thread(target=watch.close, args=("the program ended",), daemon=True)
        try:
            closer.start()
            closers.append(closer)
        except RuntimeError:  # Python from 3.12 on starts no thread any more
            watch.close("the program ended")
    for closer in closers:
        closer.join(max(0.0, until - monotonic()))


def _begin_anew() -> None:
    """In a forked child: its parent's clients are none of its business."""
    global _lock, _open, _ending
    _lock, _open, _ending = threading.Lock(), set(), None


os.register_at_fork(after_in_child=_begin_anew)


def weakly(method: Callable[..., None]) -> Callable[..., None]:
    """A bound method with a weak reference to its object; does nothing once the object is gone."""
    known: weakref.WeakMethod[Any] = weakref.WeakMethod(method)

    def call(*arguments: object) -> None:
        present = known()
        if present is not None:
            present(*arguments)

    return call
