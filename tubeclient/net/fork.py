"""Forked children: what they inherit of their parent's clients, and how it is kept from doing harm.

A child of fork has copies of all sockets and locks of its parent but only one thread, the one that forked. A lock
that another thread held at that moment stays locked for ever; a byte written to an inherited socket, or a shutdown of
it (a TLS close_notify too), reaches the parent's connection; and an inherited client has its parent's client id, by
which brokers know who owns a partition. So an inherited client is of no use in a child and says so when it is used.
Whatever the child makes for itself works, and the parent notices nothing.
"""

from __future__ import annotations

import contextlib
import os
import weakref

from tubeclient.errors import ClientClosed

__all__ = ["ProcessBound", "after_fork"]

_NOBODY = 0  # no process of ours has this id


class ProcessBound:
    """Base of what holds threads, locks or sockets: only the process that made an object may use it.

    A subclass calls `super().__init__()` first of all, `check_process()` at the beginning of each public method, and
    returns from `close()` at once where `inherited`: in a child, none of its locks may be touched.
    """

    def __init__(self) -> None:
        self._owner = os.getpid()
        _known.add(self)

    @property
    def inherited(self) -> bool:
        """Whether this process has the object from its parent."""
        return self._owner != os.getpid()

    def check_process(self) -> None:
        """Raise ClientClosed in a process that inherited the object."""
        if self.inherited:
            raise ClientClosed(
                f"this {type(self).__name__} belongs to the process that made it, not to its forked child; "
                "make a new one in the child (after a fork by C code, call tubeclient.after_fork() there first)"
            )

    def _let_go(self) -> None:
        """In the child: close the copies of sockets. Neither shut anything down nor wait for a lock."""


def after_fork() -> None:
    """Make a forked child let go of the clients it inherited; in any other process it does nothing.

    `os.fork`, multiprocessing and Spark's workers need no call: Python calls this by itself. Call it first thing in a
    child that C code forked without Python's PyOS_AfterFork_Child.
    """
    for thing in list(_known):
        if thing.inherited and thing._owner != _NOBODY:
            thing._owner = _NOBODY  # its maker's id may be given to another process some day
            with contextlib.suppress(OSError):  # whatever one socket says, the next is closed too
                thing._let_go()


_known: weakref.WeakSet[ProcessBound] = weakref.WeakSet()
os.register_at_fork(after_in_child=after_fork)
