"""One connection: answers find their callers, every fault is one error in bounded time, no thread stays."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import Future

import pytest

from tests.tubeclient.peer import WAIT_SECONDS, fill, peer, wait_until_closed
from tubeclient.errors import ConnectionLost, ProtocolError, TubeError
from tubeclient.wire.framing import Frame, FrameDecoder, encode_frame


def receive_frames(sock: socket.socket, count: int) -> list[Frame]:
    decoder = FrameDecoder()
    frames: list[Frame] = []
    while len(frames) < count:
        data = sock.recv(65536)
        assert data
        frames += decoder.feed(data)
    return frames


def test_answers_in_any_order_reach_their_callers_and_others_are_dropped() -> None:
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
        (bytes.fromhex("15030300020246"), ProtocolError, "or wants TLS"),
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


def test_a_peer_that_reads_nothing_does_not_hang_the_sender() -> None:
    done = threading.Event()

    def serve(sock: socket.socket) -> None:
        done.wait(WAIT_SECONDS)

    with peer(serve, send_timeout_ms=1_000) as connection:
        with pytest.raises(ConnectionLost, match="took too long"):
            fill(connection)
        done.set()
