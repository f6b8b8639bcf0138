"""A gate before an HTTP server: it lets in whoever has the token, and can lose answers."""

from __future__ import annotations

import http.client
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["Answer", "Gate", "http_gate"]

_SILENT_SECONDS = 60.0
_REFUSAL = b'{"error": {"message": "Not authorized", "type": "NotAuthorizedException", "code": 401}}'
_REFUSAL_OF_A_TOKEN = b'{"error": "invalid_client", "error_description": "Not authorized"}'


class Answer(Enum):
    """What becomes of a request."""

    GIVEN = auto()
    REFUSED = auto()
    """It is not carried out: another has no right to ask."""
    BROKEN = auto()
    """It is carried out, and its answer is an error of a gateway's."""
    CLOSED = auto()
    """It is carried out, and the connection ends without an answer."""
    SILENT = auto()
    """It is not carried out, and the connection stays without an answer until the gate ends."""


class Gate:
    """What a test may ask of it; `http_gate` opens it."""

    def __init__(self, port: int, token: str) -> None:
        self.uri = ""
        self.answer: Callable[[str, str], Answer] = lambda method, path: Answer.GIVEN
        """Of method and path, for whoever has the token."""
        self.requests: list[tuple[str, str]] = []
        self.ended = threading.Event()
        self._port, self._token = port, token

    def of(self, method: str, path: str, authorization: str | None) -> Answer:
        self.requests.append((method, path))
        if authorization != f"Bearer {self._token}":
            return Answer.REFUSED
        return self.answer(method, path)

    def forward(self, method: str, path: str, body: bytes, content_type: str) -> tuple[int, bytes]:
        there = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        try:
            there.request(method, path, body, {"Content-Type": content_type})
            answer = there.getresponse()
            return answer.status, answer.read()
        finally:
            there.close()


def _handler(gate: Gate) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            match gate.of(self.command, self.path, self.headers["Authorization"]):
                case Answer.REFUSED:
                    self.give(401, _REFUSAL_OF_A_TOKEN if self.path.endswith("/oauth/tokens") else _REFUSAL)
                    return
                case Answer.SILENT:
                    gate.ended.wait(_SILENT_SECONDS)
                    self.close_connection = True
                    return
                case how:
                    given = gate.forward(self.command, self.path, body, self.headers.get("Content-Type", ""))
                    if how is Answer.CLOSED:
                        self.close_connection = True
                    elif how is Answer.BROKEN:
                        self.give(502, b"")
                    else:
                        self.give(*given)

        def give(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_POST = do_HEAD = do_DELETE = answer

        def log_message(self, *told: object) -> None:
            pass

    return Handler


@contextmanager
def http_gate(uri: str, token: str) -> Iterator[Gate]:
    """While it runs: a gate before the server at `uri`, on this machine."""
    gate = Gate(urllib.parse.urlsplit(uri).port or 80, token)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(gate))
    server.daemon_threads = True
    gate.uri = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield gate
    finally:
        gate.ended.set()
        server.shutdown()
        thread.join(10)
        server.server_close()
