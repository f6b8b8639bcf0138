"""What threads of test servers read from a connection, until it ends or they are told to."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

__all__ = ["POLL_SECONDS", "received"]

POLL_SECONDS = 0.1
"""How long a thread may take to notice that it is over."""


def received(end: socket.socket, over: threading.Event) -> Iterator[bytes]:
    """The bytes that come, until the connection ends or breaks, or `over` is set."""
    end.settimeout(POLL_SECONDS)
    while not over.is_set():
        try:
            data = end.recv(1 << 16)
        except TimeoutError:
            continue
        except OSError:
            return
        if not data:
            return
        yield data
