"""The connections of a process, one per address."""

from __future__ import annotations

import os
import threading
from time import monotonic

from tubeclient.errors import ClientClosed, ConnectError
from tubeclient.net.connection import Connection
from tubeclient.net.fork import ProcessBound
from tubeclient.settings import ClientSettings


class ConnectionPool(ProcessBound):
    """Opens a connection to an address on first use, and again after it ended. Thread-safe."""

    def __init__(self, settings: ClientSettings) -> None:
        super().__init__()
        self.settings = settings
        self._lock = threading.Lock()
        self._address_locks: dict[str, threading.Lock] = {}
        self._connections: dict[str, Connection] = {}
        self._failures: dict[str, tuple[float, ConnectError]] = {}  # when and how connecting last failed
        self._closed = False

    def get(self, address: str, within_ms: int | None = None) -> Connection:
        """The live connection to `address`, made `within_ms` and the settings' limit if there is none."""
        self.check_process()
        asked_at = monotonic()
        with self._lock:
            lock = self._address_locks.setdefault(address, threading.Lock())
        with lock:  # callers of one address share one attempt; other addresses do not wait for it
            connection = self.live(address)
            if connection is not None:
                return connection
            failed_at, failure = self._failures.get(address, (0.0, None))
            if failure is not None and failed_at > asked_at:  # failed while this caller waited: do not wait again
                raise ConnectError(str(failure), address=address)
            connection = self._connect(address, within_ms)
            with self._lock:
                if self._closed:
                    connection.close()
                    raise ClientClosed(f"this client is closed; it opens no new connection to {address}")
                self._connections[address] = connection
            return connection

    def live(self, address: str) -> Connection | None:
        """The live connection to `address`, if there is one."""
        connection = self._connections.get(address)
        return None if connection is None or connection.closed else connection

    def _connect(self, address: str, within_ms: int | None) -> Connection:
        limit_ms = self.settings.connect_timeout_ms
        try:
            return Connection(
                address,
                connect_timeout_ms=limit_ms if within_ms is None else min(within_ms, limit_ms),
                send_timeout_ms=self.settings.rpc_timeout_ms,
                tls=self.settings.tls,
            )
        except ConnectError as error:
            self._failures[address] = monotonic(), error
            raise

    def close(self) -> None:
        """Close every connection and refuse new ones. If it is interrupted, the next call closes the rest."""
        if self.inherited:
            return
        with self._lock:
            self._closed = True
        for address, connection in list(self._connections.items()):
            connection.close()
            self._connections.pop(address, None)


_shared: dict[tuple[int, ClientSettings], ConnectionPool] = {}
"""By process and settings: a forked child has its own pools."""


def shared_pool(settings: ClientSettings) -> ConnectionPool:
    """Return the process's pool for these settings: successive tasks in a worker keep their connections."""
    return _shared.setdefault((os.getpid(), settings), ConnectionPool(settings))
