"""A server's address whose connections can break such that the server still gets the requests, but later."""

from __future__ import annotations

import contextlib
import socket
import threading

from tests.receiving import POLL_SECONDS, received
from tests.waiting import wait_for
from tubeclient.net.connection import split_address
from tubeclient.wire.envelope import decode_request
from tubeclient.wire.framing import Frame, FrameDecoder, encode_frame
from tubeclient.wire.methods import Method

__all__ = ["LateDoor"]


class LateDoor:
    """A TCP proxy before `address`, on a port of its own; a context manager."""

    def __init__(self, address: str) -> None:
        self._server = split_address(address)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(POLL_SECONDS)
        self.host, self.port = "127.0.0.1", int(self._listener.getsockname()[1])
        self._to_hold: tuple[Method, int] | None = None
        self._held: tuple[socket.socket, list[Frame]] | None = None
        self._in_the_air = 0
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._accept)]

    def break_at(self, method: Method, nth: int = 1) -> None:
        """At the `nth` request of `method` from now on the connection ends for the client, but not for the server: it
        gets that request, and those behind it, with `deliver`.
        """
        with self._lock:
            self._to_hold = method, nth

    @property
    def holds(self) -> bool:
        """Whether the connection broke, and what was asked on it waits to be delivered."""
        return self._held is not None

    def deliver(self) -> None:
        """Let the server have what was held back, alone; returns when it has answered."""
        held, self._held = self._held, None
        assert held is not None
        wait_for(lambda: self._in_the_air == 0, "the answers to what came in time")
        self._send(*held)
        wait_for(lambda: self._in_the_air == 0, "the answers to what came late")

    def __enter__(self) -> LateDoor:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()
        self._listener.close()

    def _accept(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(TimeoutError):
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server, 10)
                broken = threading.Event()
                for target in (self._requests, self._answers):
                    self._threads.append(threading.Thread(target=target, args=(client, server, broken)))
                    self._threads[-1].start()

    def _requests(self, client: socket.socket, server: socket.socket, broken: threading.Event) -> None:
        decoder, held = FrameDecoder(), list[Frame]()
        for data in received(client, self._over):
            for frame in decoder.feed(data):
                if held or self._is_to_hold(frame):
                    held.append(frame)
                else:
                    self._send(server, [frame])
            if held:
                broken.set()
                self._held = server, held
                client.shutdown(socket.SHUT_RDWR)
                client.close()
                return
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def _send(self, server: socket.socket, frames: list[Frame]) -> None:
        with self._lock:
            self._in_the_air += len(frames)
        server.sendall(b"".join(encode_frame(frame.serial, frame.stream) for frame in frames))

    def _answers(self, client: socket.socket, server: socket.socket, broken: threading.Event) -> None:
        decoder = FrameDecoder()
        for data in received(server, self._over):
            with self._lock:
                self._in_the_air -= len(decoder.feed(data))
            if not broken.is_set():
                with contextlib.suppress(OSError):
                    client.sendall(data)
        server.close()
        if not broken.is_set():
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
            client.close()

    def _is_to_hold(self, frame: Frame) -> bool:
        with self._lock:
            if self._to_hold is None:
                return False
            method, left = self._to_hold
            if decode_request(frame.stream).method_id != method.spec.method_id:
                return False
            self._to_hold = (method, left - 1) if left > 1 else None
            return left == 1
