"""The connections of a process, one for each address."""

from __future__ import annotations

import os
import threading

from tubeclient.errors import ClientClosed
from tubeclient.net.connection import Connection
from tubeclient.settings import ClientSettings

__all__ = ["ConnectionPool", "close_shared_pools", "shared_pool"]


class ConnectionPool:
    """Opens a connection to an address when it is first wanted, or wanted again after it ended; safe for threads."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._lock = threading.Lock()
        self._address_locks: dict[str, threading.Lock] = {}
        self._connections: dict[str, Connection] = {}
        self._closed = False

    def get(self, address: str) -> Connection:
        """Return the live connection to `address`; ConnectError where there is none to be had,
        ClientClosed after `close`.
        """
        with self._lock:
            lock = self._address_locks.setdefault(address, threading.Lock())
        with lock:  # callers of one address wait for one attempt; other addresses do not wait for it
            connection = self._connections.get(address)
            if connection is None or connection.closed:
                connection = Connection(
                    address,
                    connect_timeout_ms=self.settings.connect_timeout_ms,
                    send_timeout_ms=self.settings.rpc_timeout_ms,
                    tls=self.settings.tls,
                )
                with self._lock:
                    if self._closed:
                        connection.close()
                        raise ClientClosed(f"this client is closed; it opens no new connection to {address}")
                    self._connections[address] = connection
            return connection

    def close(self) -> None:
        """Close every connection and refuse new ones."""
        with self._lock:
            self._closed = True
            connections, self._connections = list(self._connections.values()), {}
        for connection in connections:
            connection.close()


_shared: dict[tuple[int, ClientSettings], ConnectionPool] = {}
_shared_lock = threading.Lock()


def shared_pool(settings: ClientSettings) -> ConnectionPool:
    """Return the process's pool for these settings: tasks that follow each other in a worker keep their connections.

    Keyed by process id, so that a forked child never writes to its parent's sockets.
    """
    key = (os.getpid(), settings)
    with _shared_lock:
        return _shared.setdefault(key, ConnectionPool(settings))


def close_shared_pools() -> None:
    """Close the pools that `shared_pool` gave to this process; the next call of it makes new ones."""
    with _shared_lock:
        own = [_shared.pop(key) for key in list(_shared) if key[0] == os.getpid()]
    for pool in own:
        pool.close()
