"""One connection: answers find their callers, every fault is one error in bounded time, no thread stays."""

from __future__ import annotations

import socket
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.tubeclient.peer import WAIT_SECONDS, fill, peer, wait_until_closed
from tubeclient import ClientSettings
from tubeclient.errors import ClientClosed, ConnectError, ConnectionLost, ProtocolError, TubeError
from tubeclient.net.pool import ConnectionPool
from tubeclient.wire.framing import Frame, FrameDecoder, encode_frame


def receive_frames(sock: socket.socket, count: int) -> list[Frame]:
    decoder = FrameDecoder()
    frames: list[Frame] = []
    while len(frames) < count:
        data = sock.recv(65536)
        assert data
        frames += decoder.feed(data)
    return frames


def test_answers_in_any_order() -> None:
    """Answers in any order reach their callers, and unexpected answers are dropped."""

    def serve(sock: socket.socket) -> None:
        frames = receive_frames(sock, 20)
        sock.sendall(encode_frame(frames[0].serial + 77, b"late"))
        for serial, stream in reversed(frames):
            sock.sendall(encode_frame(serial, b"re:" + stream) + encode_frame(serial, b"twice"))
        wait_until_closed(sock)

    with peer(serve) as connection:
        futures = [connection.submit(b"question %d" % number) for number in range(20)]
        answers = [future.result(WAIT_SECONDS).stream for future in futures]
        assert not connection.closed
    assert answers == [b"re:question %d" % number for number in range(20)]


@pytest.mark.parametrize(
    ("reply", "error", "text"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", ProtocolError, "does not speak TubeMQ"),
        (bytes.fromhex("15030300020246"), ProtocolError, "or requires TLS"),
        (encode_frame(1, b"x" * 100)[:50], ConnectionLost, "closed the connection"),
        (encode_frame(1, b"x")[:8] + b"\xff\xff\xff\xff", ProtocolError, "blocks"),
        (b"", ConnectionLost, "closed the connection"),
    ],
)
def test_a_broken_answer_fails_every_waiting_call(reply: bytes, error: type[TubeError], text: str) -> None:
    def serve(sock: socket.socket) -> None:
        receive_frames(sock, 2)
        sock.sendall(reply)
        sock.shutdown(socket.SHUT_WR)
        wait_until_closed(sock)

    with peer(serve) as connection:
        futures: list[Future[Frame]] = [connection.submit(b"one"), connection.submit(b"two")]
        for future in futures:
            with pytest.raises(error, match=text):
                future.result(WAIT_SECONDS)
        assert connection.closed
        with pytest.raises(ConnectionLost, match="closed"):
            connection.submit(b"three")


def test_peer_that_reads_nothing() -> None:
    """A send ends with an error in bounded time if the peer reads nothing."""
    done = threading.Event()

    def serve(sock: socket.socket) -> None:
        done.wait(WAIT_SECONDS)

    with peer(serve, send_timeout_ms=1_000) as connection:
        with pytest.raises(ConnectionLost, match="took too long"):
            fill(connection)
        done.set()


def test_who_waits_for_a_connection_shares_its_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the last of many would wait as often as there are others."""
    attempts: list[str] = []

    def connect(address: str, **_: object) -> None:
        attempts.append(address)
        time.sleep(0.5)
        raise ConnectError("no answer", address=address)

    monkeypatch.setattr("tubeclient.net.pool.Connection", connect)
    pool = ConnectionPool(ClientSettings("127.0.0.1:1"))
    with ThreadPoolExecutor(8) as threads:
        waiting = [threads.submit(pool.get, "127.0.0.1:1") for _ in range(8)]
    assert all(isinstance(caller.exception(0), ConnectError) for caller in waiting)
    assert len(attempts) < 4  # one, unless this machine stalls
    pool.close()
    monkeypatch.undo()
    with peer(wait_until_closed) as connection, pytest.raises(ClientClosed, match="opens no new connection"):
        pool.get(connection.address)
