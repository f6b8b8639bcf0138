"""Places of this machine that give no answer. What another test's server must not get is held all the time."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

__all__ = ["held_port", "silent_server"]

HOST = "127.0.0.1"


@contextlib.contextmanager
def held_port(port: int = 0) -> Iterator[int]:
    """A port, any free one if none is given, that nobody gets who asks for any. Connections to it are refused, except
    while somebody who asks for this very one, with SO_REUSEADDR, listens there."""
    with socket.socket() as holding:
        holding.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holding.bind((HOST, port))
        yield holding.getsockname()[1]


@contextlib.contextmanager
def silent_server(port: int = 0) -> Iterator[tuple[int, list[socket.socket]]]:
    """The port of a server that takes every connection and then is still, and the connections that it has taken."""
    taken: list[socket.socket] = []

    def take_all() -> None:
        with contextlib.suppress(OSError):  # it has ended
            while True:
                taken.append(listener.accept()[0])

    with socket.create_server((HOST, port)) as listener:
        thread = threading.Thread(target=take_all)
        thread.start()
        try:
            yield listener.getsockname()[1], taken
        finally:
            listener.shutdown(socket.SHUT_RDWR)  # wakes the thread, as closing it would not
            thread.join()
            for one in taken:
                one.close()
