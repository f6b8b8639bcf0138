"""One TCP connection to a master or broker, shared by any number of callers.

Requests are numbered and may be in flight together; a thread per connection reads the answers and settles their
futures.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import socket
import struct
import threading
from collections.abc import Sequence
from concurrent.futures import Future

from tubeclient.errors import ConnectError, ConnectionLost, ProtocolError, TubeError
from tubeclient.wire.framing import Frame, FrameDecoder, encode_frame

__all__ = ["Connection", "split_address"]

_log = logging.getLogger(__name__)

_RECEIVE_BYTES = 1 << 20
_JOIN_SECONDS = 5.0


def split_address(address: str) -> tuple[str, int]:
    """Return (host, port) of "host:port"."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


class Connection:
    """A connection to `address` ("host:port").

    Raises ConnectError where it cannot be made within `connect_timeout_ms`. `submit` may be called from any thread.
    Once the connection ends, for whatever reason, every answer still awaited fails with that reason and `closed` is
    true for good.
    """

    def __init__(self, address: str, *, connect_timeout_ms: int, send_timeout_ms: int) -> None:
        self.address = address
        try:
            self._socket = socket.create_connection(split_address(address), connect_timeout_ms / 1000)
        except OSError as error:
            reason = (
                f"no answer within {connect_timeout_ms} ms"
                if isinstance(error, TimeoutError)
                else error.strerror or error
            )
            raise ConnectError(f"cannot connect to {address}: {reason}", address=address) from error
        self._socket.settimeout(None)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # The reading thread waits without a limit, so the limit for writing cannot be the socket's Python timeout.
        limit = struct.pack("ll", send_timeout_ms // 1000, send_timeout_ms % 1000 * 1000)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        self._serials = itertools.count(1)
        self._lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._waiting: dict[int, Future[bytes]] = {}
        self._end: TubeError | None = None
        self._reader = threading.Thread(target=self._read, name=f"tubeclient-read-{address}", daemon=True)
        self._reader.start()

    @property
    def closed(self) -> bool:
        return self._end is not None

    def submit(self, stream: bytes) -> Future[bytes]:
        """Send a request's stream; the future gives the response's stream. ConnectionLost where nothing can be sent."""
        return self.submit_many([stream])[0]

    def submit_many(self, streams: Sequence[bytes]) -> list[Future[bytes]]:
        """Send requests with one write, in this order; ConnectionLost where they cannot be sent."""
        futures: list[Future[bytes]] = [Future() for _ in streams]
        with self._lock:
            if self._end is not None:
                raise ConnectionLost(f"the connection to {self.address} is closed: {self._end}", address=self.address)
            serials = [next(self._serials) & 0x7FFFFFFF for _ in streams]
            self._waiting.update(zip(serials, futures, strict=True))
        frames = b"".join(map(encode_frame, serials, streams))
        try:
            with self._write_lock:
                self._socket.sendall(frames)
        except OSError as error:
            reason = "it took too long" if isinstance(error, BlockingIOError) else error.strerror or error
            lost = ConnectionLost(f"sending to {self.address} failed: {reason}", address=self.address)
            self._finish(lost)
            raise lost from error
        return futures

    def close(self) -> None:
        """End the connection and its thread. Answers still awaited fail with ConnectionLost."""
        self._finish(ConnectionLost(f"the connection to {self.address} was closed here", address=self.address))
        if self._reader is not threading.current_thread():
            self._reader.join(_JOIN_SECONDS)

    def _read(self) -> None:
        decoder = FrameDecoder()
        buffer = memoryview(bytearray(_RECEIVE_BYTES))
        try:
            while received := self._socket.recv_into(buffer):
                for frame in decoder.feed(buffer[:received]):
                    self._settle(frame)
            self._finish(ConnectionLost(f"{self.address} closed the connection", address=self.address))
        except ProtocolError as error:
            self._finish(ProtocolError(f"from {self.address}: {error}"))
        except OSError as error:
            reason = error.strerror or error
            self._finish(ConnectionLost(f"the connection to {self.address} broke: {reason}", address=self.address))
        finally:
            self._socket.close()

    def _settle(self, frame: Frame) -> None:
        with self._lock:
            future = self._waiting.pop(frame.serial, None)
        if future is None:  # its caller gave up waiting, or the server answered twice
            _log.debug("an answer nobody waits for from %s, serial %d", self.address, frame.serial)
        elif future.set_running_or_notify_cancel():
            future.set_result(frame.stream)

    def _finish(self, reason: TubeError) -> None:
        with self._lock:
            if self._end is not None:
                return
            self._end = reason
            waiting, self._waiting = self._waiting, {}
        with contextlib.suppress(OSError):  # the other side was first
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the reading thread, which closes the socket
        for future in waiting.values():
            if future.set_running_or_notify_cancel():
                future.set_exception(reason)
