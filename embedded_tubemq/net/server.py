"""TCP and TLS: frames in, frames out; each connection's requests are answered in order."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import deque

from embedded_tubemq.common.faults import ConnectionFault
from embedded_tubemq.common.peer import NOBODY, Peer
from embedded_tubemq.net.rpc import Endpoint, Reply
from tubeclient.errors import ProtocolError
from tubeclient.wire.framing import Frame, FrameDecoder, encode_frame

__all__ = ["TcpServer", "hold", "listen"]

_LOG = logging.getLogger(__name__)
_WRONG_TOKEN = b"\x00\x00\x00\x00"
_WRITE_BYTES = 64 << 10
_ACCEPT_PAUSE_SECONDS = 1.0
_HANDSHAKE_SECONDS = 5.0
_BACKLOG = 1024


class TcpServer:
    """Listens for one endpoint, over TLS if `tls` is given; owns all its connections."""

    def __init__(self, endpoint: Endpoint, name: str, tls: ssl.SSLContext | None = None) -> None:
        self.endpoint = endpoint
        self.name = name
        self.tls = tls
        self._listener: socket.socket | None = None
        self._arriving: set[asyncio.Task[None]] = set()
        self._connections: set[_Connection] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port. With `port` 0 the system chooses it."""
        self._listener = await listen(host, port)
        asyncio.get_running_loop().add_reader(self._listener, self._accept, self._listener)
        bound: int = self._listener.getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Stop listening and cut all connections, for good."""
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        # Connections accepted a moment ago are cut as soon as they have a transport, in their first turn: none is
        # missed. This does not wait for a handshake that the peer holds up.
        if self._arriving:
            await asyncio.sleep(0)
            for task in self._arriving:
                task.cancel()
        await asyncio.gather(*self._arriving, return_exceptions=True)
        for connection in list(self._connections):
            connection.cut()
        # One turn of the loop, which really closes the sockets.
        await asyncio.sleep(0)

    def _accept(self, listener: socket.socket) -> None:
        # Not asyncio's own server: when closed, it forgets connections accepted at the same moment and leaves them open
        # (seen with CPython 3.11).
        loop = asyncio.get_running_loop()
        try:
            accepted, _ = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as error:
            _LOG.warning("%s: cannot accept connections for a while: %s", self.name, error)
            loop.remove_reader(listener)
            loop.call_later(_ACCEPT_PAUSE_SECONDS, self._accept_again, listener)
            return
        accepted.setblocking(False)
        task = loop.create_task(self._arrive(accepted))
        self._arriving.add(task)
        task.add_done_callback(self._arriving.discard)

    async def _arrive(self, accepted: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: _Connection(self),
                accepted,
                ssl=self.tls,
                ssl_handshake_timeout=_HANDSHAKE_SECONDS if self.tls is not None else None,
            )
        except OSError as error:
            _LOG.warning("%s: a connection failed: %s", self.name, str(error) or type(error).__name__)

    def _accept_again(self, listener: socket.socket) -> None:
        if self._listener is listener:
            asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    def opened(self, connection: _Connection) -> None:
        """Register a connection."""
        self._connections.add(connection)

    def closed(self, connection: _Connection) -> None:
        """Remove a connection."""
        self._connections.discard(connection)


class _Connection(asyncio.Protocol):
    def __init__(self, server: TcpServer) -> None:
        self._server = server
        self._decoder = FrameDecoder()
        self._waiting: deque[Frame] = deque()
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._peer_is_slow = False
        self._answer_is_delayed = False
        self._transport: asyncio.Transport | None = None
        self._peer = NOBODY

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        host, port = transport.get_extra_info("peername")[:2]
        self._peer = Peer(f"{host}:{port}", self._server.tls is not None)
        self._server.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.closed(self)
        self._transport = None
        self._waiting.clear()

    def data_received(self, data: bytes) -> None:
        try:
            self._waiting.extend(self._decoder.feed(data))
        except ProtocolError as error:
            _LOG.warning("%s: connection of %s closed: %s", self._server.name, self._peer.address, error)
            self.cut()
            return
        self._work()

    def pause_writing(self) -> None:
        self._peer_is_slow = True
        self._work()

    def resume_writing(self) -> None:
        self._peer_is_slow = False
        self._work()

    def cut(self) -> None:
        """Close without sending the rest."""
        self._waiting.clear()
        if self._transport is not None:
            self._transport.abort()

    @property
    def _held(self) -> bool:
        """Whether answers are held back for now."""
        return self._peer_is_slow or self._answer_is_delayed

    def _work(self) -> None:
        while self._waiting and not self._held and self._transport is not None:
            frame = self._waiting.popleft()
            reply = self._server.endpoint.answer(frame.stream, self._peer)
            if reply.delay_ms:
                self._answer_is_delayed = True
                asyncio.get_running_loop().call_later(reply.delay_ms / 1000, self._after_delay, frame.serial, reply)
            else:
                self._send(frame.serial, reply)
        self._flush()
        if self._transport is None:
            return
        # While requests are held, further ones stay in the socket, so memory is bounded.
        if self._held:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _after_delay(self, serial: int, reply: Reply) -> None:
        self._answer_is_delayed = False
        self._send(serial, reply)
        self._flush()
        self._work()

    def _send(self, serial: int, reply: Reply) -> None:
        if self._transport is None:
            return
        if reply.fault in (ConnectionFault.DROP_BEFORE, ConnectionFault.DROP_AFTER):
            self._flush()
            self.cut()
        elif reply.stream is not None:
            frame = encode_frame(serial, reply.stream)
            if reply.fault is ConnectionFault.CORRUPT_FRAME:
                frame = _WRONG_TOKEN + frame[len(_WRONG_TOKEN) :]
            self._unsent.append(frame)
            self._unsent_bytes += len(frame)
            if self._unsent_bytes >= _WRITE_BYTES:
                self._flush()

    def _flush(self) -> None:
        """Write what is ready: one write for many small answers."""
        ready, self._unsent, self._unsent_bytes = self._unsent, [], 0  # first: the write may call back into here
        if ready and self._transport is not None:
            self._transport.write(b"".join(ready))


async def listen(host: str, port: int) -> socket.socket:
    """A listening socket that does not block, at the first address of `host`. With `port` 0 the system chooses it.

    Raises OSError where the address is unknown, foreign or in use.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = found[0]
    listener = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    listener.setblocking(False)
    return listener


def hold(host: str, port: int) -> socket.socket | None:
    """A socket that keeps `port` for whoever listened there and will again: connections to it are refused, and the
    system gives it to nobody. None if somebody has it already.
    """
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    holder = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Connections that were cut a moment ago still count as users of the port.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(address)
    except OSError:
        holder.close()
        return None
    return holder
