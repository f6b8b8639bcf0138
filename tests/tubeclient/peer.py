"""A connection to a peer of a test's own making."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tubeclient import TlsSettings
from tubeclient.net.connection import Connection

__all__ = ["WAIT_SECONDS", "fill", "peer", "wait_until_closed"]

WAIT_SECONDS = 30


@contextmanager
def peer(serve: Callable[[socket.socket], None], ca_file: str | None = None, **limits: int) -> Iterator[Connection]:
    """The connection, plain without `ca_file`; `serve` gets the accepted socket."""
    limits = {"connect_timeout_ms": 5_000, "send_timeout_ms": 5_000} | limits
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(WAIT_SECONDS)

        def accept() -> None:
            accepted, _ = listener.accept()
            with accepted:
                accepted.settimeout(WAIT_SECONDS)
                serve(accepted)

        thread = threading.Thread(target=accept)
        thread.start()
        connection: Connection | None = None
        try:
            address = f"127.0.0.1:{listener.getsockname()[1]}"
            connection = Connection(address, **limits, tls=TlsSettings(ca_file) if ca_file is not None else None)
            yield connection
        finally:
            if connection is not None:
                connection.close()
            thread.join(WAIT_SECONDS)
            assert not thread.is_alive()


def wait_until_closed(sock: socket.socket) -> None:
    """Read what comes, to its end."""
    while sock.recv(1 << 16):
        pass


def fill(connection: Connection) -> None:
    """Send more than the buffers on the way hold."""
    for _ in range(20):
        connection.submit(bytes(4 << 20))
