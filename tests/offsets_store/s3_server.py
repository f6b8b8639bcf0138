"""An S3 server on this machine: moto behind a gate that lets requests in one by one, late if a test wants that."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

__all__ = ["BUCKET", "S3Server", "s3_server"]

BUCKET: Final = "lake"
_ACCESS_KEY_ID: Final = "the-access-key-id"
_SECRET_ACCESS_KEY: Final = "the-secret-access-key"


class S3Server:
    """The WSGI application and what a test may ask of it; `s3_server` starts it."""

    def __init__(self) -> None:
        self.puts: list[str] = []
        """Paths of what was put, in order."""

        self.delayed = threading.Event()
        """Set: from now on no request is answered before `close`."""

        self.endpoint = ""
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._one_by_one = threading.Lock()  # moto looks whether an object exists, and then puts it
        self._closed = threading.Event()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if self.delayed.is_set():
            self._closed.wait(60)
            start_response("503 Service Unavailable", [("Content-Length", "0")])
            return []
        with self._one_by_one:
            if environ["REQUEST_METHOD"] == "PUT":
                self.puts.append(environ["PATH_INFO"])
            return list(self._moto(environ, start_response))

    @property
    def options(self) -> dict[str, str]:
        """Storage options with which delta-rs reaches the server."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": _ACCESS_KEY_ID,
            "AWS_SECRET_ACCESS_KEY": _SECRET_ACCESS_KEY,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
            "aws_conditional_put": "etag",
        }

    def close(self) -> None:
        self._closed.set()


class _Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *arguments: Any) -> None:
        pass


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """A server with the bucket BUCKET, empty; for this process and its children."""
    application = S3Server()
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=_Quiet)
    server.daemon_threads = True  # type: ignore[attr-defined]
    application.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        _request("POST", f"{application.endpoint}/moto-api/reset")
        _request("PUT", f"{application.endpoint}/{BUCKET}")
        yield application
    finally:
        application.close()
        server.shutdown()
        thread.join(10)
        server.server_close()


def _request(method: str, url: str) -> None:
    with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=10) as answer:
        answer.read()
