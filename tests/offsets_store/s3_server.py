"""An S3 server on this machine, with Glue: moto behind a gate that lets requests in one by one, and can delay answers.

It runs in a thread of this process on purpose: a call that blocked all threads while waiting for the store would then
hang for ever.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

__all__ = ["BUCKET", "S3Server", "s3_process", "s3_server"]

BUCKET: Final = "lake"
_ACCESS_KEY_ID: Final = "the-access-key-id"
_SECRET_ACCESS_KEY: Final = "the-secret-access-key"
_LATE_SECONDS: Final = 60.0
_UNKNOWN_KEY: Final = b"<Error><Code>InvalidAccessKeyId</Code><Message>The key id is unknown.</Message></Error>"
_UNKNOWN_KEY_OF_GLUE: Final = b'{"__type": "UnrecognizedClientException", "message": "The security token is invalid."}'


class S3Server:
    """The WSGI application and what a test may ask of it; `s3_server` starts it. It refuses unknown keys."""

    def __init__(self) -> None:
        self.endpoint = ""
        self.late: Callable[[str, str], bool] = lambda method, path: False
        """Of method and path: whether a request is carried out, but answered only after `answer_late`."""

        self.broken: Callable[[str, str], bool] = lambda method, path: False
        """The same, but its answer is an error of a gateway's."""

        self.conditional_puts: list[str] = []
        """Paths of what was put on condition that nothing is there, in order."""

        self._moto = DomainDispatcherApplication(create_backend_app)
        self._one_by_one = threading.Lock()  # moto looks whether an object exists, and then puts it
        self._answer = threading.Event()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        what = (environ["REQUEST_METHOD"], environ["PATH_INFO"])
        if _ACCESS_KEY_ID not in environ.get("HTTP_AUTHORIZATION", _ACCESS_KEY_ID):
            is_glue = "HTTP_X_AMZ_TARGET" in environ
            body = _UNKNOWN_KEY_OF_GLUE if is_glue else _UNKNOWN_KEY
            start_response("400 Bad Request" if is_glue else "403 Forbidden", [("Content-Length", str(len(body)))])
            return [body]
        late, broken = self.late(*what), self.broken(*what)
        with self._one_by_one:
            if environ.get("HTTP_IF_NONE_MATCH") == "*":
                self.conditional_puts.append(environ["PATH_INFO"])
            answer = list(self._moto(environ, (lambda *told: None) if broken else start_response))
        if broken:
            start_response("502 Bad Gateway", [("Content-Length", "0")])
            return []
        if late:
            self._answer.wait(_LATE_SECONDS)
        return answer

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

    def answer_late(self) -> None:
        """Answer all late requests now, and no request late any more."""
        self.late = lambda method, path: False
        self._answer.set()


class _Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *arguments: Any) -> None:
        pass


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """A server with the bucket BUCKET, empty; for this process and its children."""
    application = S3Server()
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=_Quiet)
    application.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        _request("POST", f"{application.endpoint}/moto-api/reset")
        _request("PUT", f"{application.endpoint}/{BUCKET}")
        yield application
    finally:
        application.answer_late()
        server.shutdown()
        thread.join(10)
        server.server_close()


def _request(method: str, url: str) -> None:
    with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=30) as answer:
        answer.read()


@contextmanager
def s3_process() -> Iterator[dict[str, str]]:
    """The storage options of a server in a process of its own: for whoever blocks all threads of this one, or has
    processes that write there."""
    command = [sys.executable, "-c", _SERVE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield json.loads(server.stdout.readline())
        server.communicate(timeout=30)


_SERVE: Final = """
import json, sys
from tests.offsets_store.s3_server import s3_server
with s3_server() as server:
    print(json.dumps(server.options), flush=True)
    sys.stdin.read()
"""
