"""TLS under load: one thread receives while many send, and nothing waits for what it must not wait for."""

from __future__ import annotations

import array
import fcntl
import hashlib
import socket
import ssl
import termios
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.certificates import Certificate, CertificateAuthority
from tests.tubeclient.peer import WAIT_SECONDS, peer, wait_until_closed
from tests.waiting import wait_for
from tubeclient.net.streams import TlsStream
from tubeclient.wire.framing import FrameDecoder, encode_frame


@pytest.fixture(params=[ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["TLS 1.2", "TLS 1.3"])
def context(request: pytest.FixtureRequest, server_certificate: Certificate) -> ssl.SSLContext:
    """A server's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = context.maximum_version = request.param
    context.load_cert_chain(server_certificate.certificate_file, server_certificate.key_file)
    return context


def echo(sock: ssl.SSLSocket) -> None:
    """Answer each frame with its stream's digest and the stream, until the other side ends."""
    decoder = FrameDecoder()
    while data := sock.recv(1 << 16):
        for serial, stream in decoder.feed(data):
            sock.sendall(encode_frame(serial, hashlib.sha256(stream).digest() + stream))


def wait_until_full(sock: socket.socket) -> None:
    """Until there is something to read and it has stopped growing."""
    seen = [0, 0]

    def full() -> bool:
        time.sleep(0.05)
        size = array.array("i", [0])
        fcntl.ioctl(sock.fileno(), termios.FIONREAD, size)
        seen.append(size[0])
        return 0 < seen[-2] == seen[-1]

    wait_for(full, "a send that is held up")


def test_many_threads_send_while_one_receives(authority: CertificateAuthority, context: ssl.SSLContext) -> None:
    def serve(sock: socket.socket) -> None:
        with context.wrap_socket(sock, server_side=True) as secured:
            echo(secured)

    wrong: list[bytes] = []
    users: list[int] = []  # how many threads were in the TLS state at once

    class Watched:
        """The real thing, in use for a little longer than it would be."""

        def __init__(self, tls: ssl.SSLObject) -> None:
            self._tls = tls
            self._inside = 0

        def __getattr__(self, name: str) -> Callable[..., Any]:
            def call(*arguments: Any) -> Any:
                self._inside += 1
                users.append(self._inside)
                time.sleep(0)
                try:
                    return getattr(self._tls, name)(*arguments)
                finally:
                    self._inside -= 1

            return call

    def ask(number: int) -> None:
        for size in (1, 100, 16_384, 70_000, 600_000):
            stream = bytes([number]) * size
            for future in connection.submit_many([stream] * 4):
                if future.result(WAIT_SECONDS).stream != hashlib.sha256(stream).digest() + stream:
                    wrong.append(stream)

    with peer(serve, authority.ca_file) as connection:
        stream = connection._stream
        assert isinstance(stream, TlsStream)
        with stream._lock:
            stream._tls = Watched(stream._tls)  # type: ignore[assignment]
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_SECONDS)
            assert not thread.is_alive()
        assert not connection.closed
    assert not wrong
    assert max(users) == 1


def test_answers_come_in_while_a_send_is_held_up(authority: CertificateAuthority, context: ssl.SSLContext) -> None:
    answered = threading.Event()

    def serve(sock: socket.socket) -> None:
        with context.wrap_socket(sock, server_side=True) as secured:
            decoder = FrameDecoder()
            ((serial, *_),) = decoder.feed(secured.recv(1 << 16))
            # Nothing more is read for now, so that the long send below fills every buffer on the way and waits.
            wait_until_full(secured)
            secured.sendall(encode_frame(serial, b"answer"))
            answered.wait(WAIT_SECONDS)
            wait_until_closed(secured)

    with peer(serve, authority.ca_file, send_timeout_ms=WAIT_SECONDS * 1_000) as connection:
        future = connection.submit(b"question")
        sender = threading.Thread(target=lambda: connection.submit(bytes(25 << 20)))
        sender.start()
        assert future.result(WAIT_SECONDS).stream == b"answer"
        assert sender.is_alive()
        answered.set()
        sender.join(WAIT_SECONDS)
        assert not sender.is_alive()
