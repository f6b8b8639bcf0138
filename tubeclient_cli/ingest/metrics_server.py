"""The HTTP server of `--metrics-port`. prometheus_client's own gives each connection a thread without an end: whoever
opens many and says nothing takes all threads and file descriptors of the running job."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from socketserver import ThreadingMixIn
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from tubeclient.net.timed_socket import TimedSocket

__all__ = ["MetricsServer"]

_CLIENT_TIMEOUT_S: Final = 15.0
_AT_ONCE: Final = 32
"""Connections; one more is closed at once."""


class MetricsServer(ThreadingMixIn, WSGIServer):
    """Listens on host and port (0 takes a free one) and serves `application`. OSError if the port cannot be had."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host: str, port: int, application: Callable[..., Any]) -> None:
        self._places = threading.Semaphore(_AT_ONCE)
        [(self.address_family, *_, address), *_] = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        super().__init__(address[:2], _Handler)  # type: ignore[arg-type]
        self.set_app(application)

    def get_request(self) -> tuple[TimedSocket, Any]:
        accepted, address = super().get_request()
        request = TimedSocket(fileno=accepted.detach())
        # For the whole request: who sends it byte by byte keeps no thread.
        request.deadline = time.monotonic() + _CLIENT_TIMEOUT_S
        return request, address

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._places.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away or was too slow is no event."""


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: a line for every scrape helps nobody."""
