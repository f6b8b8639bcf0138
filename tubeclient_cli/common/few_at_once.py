"""A thread for each connection, of which there are only so many: who opens more takes no file descriptor from the
process that serves."""

from __future__ import annotations

import threading
from socketserver import ThreadingMixIn
from typing import Any

from tubeclient.net.timed_socket import TimedSocket

__all__ = ["FewAtOnce"]


class FewAtOnce(ThreadingMixIn):
    """For a server of `socketserver`. Whoever is served gets a TimedSocket, without a deadline yet."""

    daemon_threads = True
    at_once = 32
    """Connections; one more is closed at once."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._places = threading.Semaphore(self.at_once)
        super().__init__(*arguments, **named)

    def get_request(self) -> tuple[TimedSocket, Any]:
        accepted, address = super().get_request()  # type: ignore[misc]
        return TimedSocket(fileno=accepted.detach()), address

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)  # type: ignore[attr-defined]
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
