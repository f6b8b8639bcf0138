"""The HTTP server of `--metrics-port`. prometheus_client's own gives each connection a thread without an end: whoever
opens many and says nothing takes all threads and file descriptors of the running job."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from tubeclient.net.timed_socket import TimedSocket
from tubeclient_cli.common.few_at_once import FewAtOnce

__all__ = ["MetricsServer"]

_CLIENT_TIMEOUT_S: Final = 15.0


class MetricsServer(FewAtOnce, WSGIServer):
    """Listens on host and port (0 takes a free one) and serves `application`. OSError if the port cannot be had."""

    request_queue_size = 128

    def __init__(self, host: str, port: int, application: Callable[..., Any]) -> None:
        [(self.address_family, *_, address), *_] = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        super().__init__(address[:2], _Handler)
        self.set_app(application)

    def get_request(self) -> tuple[TimedSocket, Any]:
        request, address = super().get_request()
        # For the whole request: who sends it byte by byte keeps no thread.
        request.deadline = time.monotonic() + _CLIENT_TIMEOUT_S
        return request, address


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: a line for every scrape helps nobody."""
