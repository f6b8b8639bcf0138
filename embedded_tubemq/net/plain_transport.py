"""A TCP connection in an asyncio loop that sends pieces without copying.

asyncio's own transport joins pieces, and copies what the socket does not take at once (CPython 3.11). Answers to
fetches have half a megabyte each, and those copies were most of their cost.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Iterable
from itertools import islice

__all__ = ["PlainTransport"]

_RECEIVE_BYTES = 256 << 10
_HIGH_BYTES = 64 << 10
_LOW_BYTES = 16 << 10
_PIECES_AT_ONCE = os.sysconf("SC_IOV_MAX")

Piece = bytes | bytearray | memoryview


class PlainTransport(asyncio.Transport):
    """Connects a non-blocking socket, which it then owns, with a protocol, as asyncio's transports do.

    Pieces must not change until they are sent. After the peer's end of stream the rest is still sent, then the
    connection ends. Create and use it on the loop's thread. OSError if the peer is already gone.
    """

    def __init__(self, connected: socket.socket, protocol: asyncio.Protocol) -> None:
        super().__init__({"peername": connected.getpeername()})
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._loop = asyncio.get_running_loop()
        self._socket = connected
        self._protocol = protocol
        self._unsent: deque[memoryview] = deque()
        self._unsent_bytes = 0
        self._reading = False
        self._protocol_waits = False
        self._closing = False
        self._lost = False
        protocol.connection_made(self)
        self.resume_reading()

    def is_closing(self) -> bool:
        """Whether it is closed or lost."""
        return self._closing

    def is_reading(self) -> bool:
        """Whether the protocol receives incoming data."""
        return self._reading

    def pause_reading(self) -> None:
        """Leave incoming data in the socket."""
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._socket)

    def resume_reading(self) -> None:
        """Pass incoming data to the protocol again."""
        if not self._reading and not self._closing:
            self._reading = True
            self._loop.add_reader(self._socket, self._receive)

    def get_write_buffer_size(self) -> int:
        """Bytes that the socket has not taken yet."""
        return self._unsent_bytes

    def write(self, data: Piece) -> None:
        """Send `data`."""
        self.writelines([data])

    def writelines(self, list_of_data: Iterable[Piece]) -> None:
        """Send the pieces in order: now what the socket takes, the rest later."""
        if self._closing:
            return
        waited = bool(self._unsent)
        for piece in list_of_data:
            view = memoryview(piece)
            if view:
                self._unsent.append(view)
                self._unsent_bytes += len(view)
        if not waited and self._unsent:
            self._send()
            if self._unsent and not self._lost:
                self._loop.add_writer(self._socket, self._send_rest)
        if self._unsent_bytes > _HIGH_BYTES and not self._protocol_waits:
            self._protocol_waits = True
            self._protocol.pause_writing()

    def close(self) -> None:
        """Stop reading, send the rest, and close."""
        if not self._closing:
            self.pause_reading()
            self._closing = True
            if not self._unsent:
                self._end(None)

    def abort(self) -> None:
        """Close at once."""
        self._end(None)

    def _receive(self) -> None:
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(error)
            return
        if not data:
            self.close()
            return
        try:
            self._protocol.data_received(data)
        except BaseException:  # as asyncio does: the protocol is broken; the loop logs the error
            self._end(None)
            raise

    def _send(self) -> None:
        try:
            while self._unsent:
                pieces = list(islice(self._unsent, _PIECES_AT_ONCE))
                sent = self._socket.sendmsg(pieces)
                self._unsent_bytes -= sent
                for piece in pieces:
                    if len(piece) > sent:
                        self._unsent[0] = piece[sent:]
                        return
                    sent -= len(piece)
                    self._unsent.popleft()
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(error)

    def _send_rest(self) -> None:
        self._send()
        if self._lost:
            return
        if not self._unsent:
            self._loop.remove_writer(self._socket)
            if self._closing:
                self._end(None)
                return
        if self._protocol_waits and self._unsent_bytes <= _LOW_BYTES:
            self._protocol_waits = False
            self._protocol.resume_writing()

    def _end(self, error: OSError | None) -> None:
        if self._lost:
            return
        self.pause_reading()
        self._closing = self._lost = True
        if self._unsent:
            self._unsent.clear()
            self._unsent_bytes = 0
        self._loop.remove_writer(self._socket)
        # Later: the protocol may be in the middle of a call.
        self._loop.call_soon(self._tell_lost, error)

    def _tell_lost(self, error: OSError | None) -> None:
        try:
            self._protocol.connection_lost(error)
        finally:
            self._socket.close()
