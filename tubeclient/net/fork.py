"""Forked children: protects the parent's clients from them.

A forked child has copies of all sockets and locks of its parent but only one thread, the one that forked. A lock that
another thread held at that moment stays locked for ever. Bytes written to an inherited socket, or its shutdown, reach
the parent's connection. And an inherited client has its parent's client id, by which brokers know a partition's owner.
So an inherited client raises an error when a child uses it; clients that the child makes itself work.
"""

from __future__ import annotations

import os

from tubeclient.errors import ClientClosed


class ProcessBound:
    """Base of objects with threads, locks or sockets: only the process that made an object may use it. Each public
    method begins with `check_process()`; `close()` returns at once if `inherited`: a child must not touch the locks."""

    def __init__(self) -> None:
        self._owner = os.getpid()

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
