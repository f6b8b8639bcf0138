"""Calls of web ports that are slow, foreign or wrong: each ends in time, with one error."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tubeclient.errors import ProtocolError, StandbyMaster, TransportError, TubeError
from tubeclient.net.http import query_master

LIMIT_MS = 500
WAIT_SECONDS = 20.0
OK = b"HTTP/1.1 200 OK\r\n"


@contextlib.contextmanager
def answering(answer: Callable[[socket.socket], object]) -> Iterator[str]:
    """The address of a server that takes one request, and lets `answer` do the rest."""

    def serve() -> None:
        accepted, _ = listener.accept()
        with accepted:
            accepted.recv(65536)
            with contextlib.suppress(OSError):  # the client had enough
                answer(accepted)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            thread.join(WAIT_SECONDS)
    assert not thread.is_alive()


def drip(begin: bytes, pieces: bytes) -> Callable[[socket.socket], None]:
    """Answer with `begin`, and then again and again with `pieces`, for far longer than the limit."""

    def answer(sock: socket.socket) -> None:
        sock.sendall(begin)
        end = time.monotonic() + WAIT_SECONDS / 2
        while time.monotonic() < end:
            sock.sendall(pieces)
            time.sleep(LIMIT_MS / 5000)

    return answer


@pytest.mark.parametrize(
    ("begin", "pieces"),
    [
        (b"", b"H"),
        (OK + b"X-A: ", b"a"),
        (OK, b"A: b\r\n"),
        (OK + b"Content-Length: 100000\r\n\r\n", b" "),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        (OK + b"\r\n", b" "),
    ],
    ids=["status", "header", "headers", "body", "chunks", "endless"],
)
def test_an_answer_that_comes_too_slowly_is_none(begin: bytes, pieces: bytes) -> None:
    started = time.monotonic()
    with answering(drip(begin, pieces)) as address:
        with pytest.raises(TransportError, match=f"no answer to admin_x from http://{address}: "):
            query_master(address, "admin_x", LIMIT_MS)
        assert time.monotonic() - started < WAIT_SECONDS / 4


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n", StandbyMaster),
        (b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", TransportError),
        (b"\x00\xff" * 100, TransportError),
        (OK + b"Content-Length: 5\r\n\r\n<htm>", ProtocolError),
        (OK + b"Content-Length: 50\r\n\r\n{}", TransportError),
    ],
    ids=["redirect", "error", "garbage", "page", "cut"],
)
def test_what_is_no_answer_is_an_error(answer: bytes, error: type[TubeError]) -> None:
    with answering(lambda sock: sock.sendall(answer)) as address, pytest.raises(error):
        query_master(address, "admin_x", LIMIT_MS)


def test_an_answer_is_its_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    body = b'{"result":true,"errCode":0,"errMsg":"OK","data":[1]}'
    with answering(lambda sock: sock.sendall(OK + b"Content-Length: %d\r\n\r\n%s" % (len(body), body))) as address:
        assert query_master(address, "admin_x", LIMIT_MS)["data"] == [1]
