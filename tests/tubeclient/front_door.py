"""A TCP proxy before the master of an embedded cluster; tests can make it misbehave."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from enum import Enum

from tubeclient.net.connection import split_address
from tubeclient.wire.envelope import encode_error
from tubeclient.wire.framing import FrameDecoder, encode_frame

LATE_SECONDS = 1.5
_POLL_SECONDS = 0.1


class Manner(Enum):
    """How the address behaves towards those who connect or ask."""

    GOOD = "hands everything on to the master"
    DEAD = "nobody listens"
    SILENT = "takes connections and requests, never answers"
    LATE = f"answers what the master does, {LATE_SECONDS} s later"
    GARBAGE = "answers what is not TubeMQ"
    STANDBY = "answers that it is a standby"


class FrontDoor:
    """Listens on a port of its own from the start; a context manager."""

    def __init__(self, master_address: str, manner: Manner = Manner.GOOD) -> None:
        self.asked = 0
        """Requests, or parts of such, that arrived here."""
        self._master = split_address(master_address)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(_POLL_SECONDS)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: set[socket.socket] = set()
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self.manner = Manner.GOOD
        self.become(manner)

    def become(self, manner: Manner) -> None:
        """Change the manner, also towards those already connected; the dead stay dead."""
        self.manner = manner
        if manner is Manner.DEAD:
            self._listener.close()
            for connected in list(self._open):
                with contextlib.suppress(OSError):
                    connected.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> FrontDoor:
        if self.manner is not Manner.DEAD:
            self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._listener.close()
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()

    def _start(self, target: Callable[..., None], *arguments: socket.socket) -> None:
        thread = threading.Thread(target=target, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:  # closed
                return
            master = socket.create_connection(self._master, 10)
            self._start(self._requests, client, master)
            self._start(self._answers, master, client)

    def _requests(self, client: socket.socket, master: socket.socket) -> None:
        decoder = FrameDecoder()
        for data in self._received(client):
            self.asked += 1
            frames = decoder.feed(data)
            if self.manner in (Manner.GOOD, Manner.LATE):
                master.sendall(data)
            elif self.manner is Manner.GARBAGE:
                client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            elif self.manner is Manner.STANDBY:
                for frame in frames:
                    refusal = encode_error("org.apache.inlong.tubemq.corerpc.exception.StandbyException", "")
                    client.sendall(encode_frame(frame.serial, refusal))
        with contextlib.suppress(OSError):
            master.shutdown(socket.SHUT_RDWR)

    def _answers(self, master: socket.socket, client: socket.socket) -> None:
        for data in self._received(master):
            if self.manner is Manner.LATE:
                self._over.wait(LATE_SECONDS)
            with contextlib.suppress(OSError):  # the client may have gone
                client.sendall(data)

    def _received(self, sock: socket.socket) -> Iterator[bytes]:
        """What arrives on a socket until either side or the test is over; closes it then."""
        self._open.add(sock)
        with sock:
            sock.settimeout(_POLL_SECONDS)
            while not self._over.is_set():
                try:
                    data = sock.recv(65536)
                except TimeoutError:
                    continue
                except OSError:
                    break
                if not data:
                    break
                yield data
            self._open.discard(sock)
