"""Forked children: protects the parent's clients from them.

A forked child has copies of all sockets and locks of its parent but only one thread, the one that forked. A lock that
another thread held at that moment stays locked for ever. Bytes written to an inherited socket, or its shutdown (also a
TLS close_notify), reach the parent's connection. And an inherited client has its parent's client id, by which brokers
know a partition's owner. So an inherited client raises an error when a child uses it. Clients that the child makes
itself work, and the parent notices nothing.
"""

from __future__ import annotations

import contextlib
import os
import weakref

from tubeclient.errors import ClientClosed

_NOBODY = 0  # not a process id


class ProcessBound:
    """Base of objects with threads, locks or sockets: only the process that made an object may use it. Each public
    method begins with `check_process()`; `close()` returns at once if `inherited`: a child must not touch the locks."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        _known.add(self)

    @property
    def inherited(self) -> bool:
        """Whether this process inherited the object from its parent."""
        return self._owner != os.getpid()

    def check_process(self) -> None:
        """Raise ClientClosed in a process that inherited the object."""
        if self._owner != os.getpid():
            raise ClientClosed(
                f"this {type(self).__name__} belongs to the process that made it, not to its forked child; "
                "make a new one in the child"
            )

    def _let_go(self) -> None:
        """In the child: close the copies of sockets. Do not shut anything down, and do not wait for a lock."""


def _drop_inherited() -> None:
    for thing in list(_known):
        if thing.inherited and thing._owner != _NOBODY:
            thing._owner = _NOBODY  # the maker's id may be reused by another process
            with contextlib.suppress(OSError):  # an error of one socket must not keep the next one open
                thing._let_go()


_known: weakref.WeakSet[ProcessBound] = weakref.WeakSet()
os.register_at_fork(after_in_child=_drop_inherited)
