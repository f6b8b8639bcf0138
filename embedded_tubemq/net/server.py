"""TCP and TLS: frames in, frames out; each connection's requests are answered in order.

`Endpoint` is between the streams of requests and answers and a state machine, without sockets.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import NamedTuple, Protocol

from google.protobuf.message import Message

from embedded_tubemq.common.faults import ConnectionFault, Faults
from embedded_tubemq.common.peer import NOBODY, Peer
from embedded_tubemq.common.refusal import StandbyRefusal
from tubeclient.errors import ProtocolError
from tubeclient.wire.envelope import Request, decode_request, encode_error, encode_response, parse_message
from tubeclient.wire.framing import FrameDecoder, encode_frame
from tubeclient.wire.methods import BROKER_READ, BROKER_WRITE, Method, method_of

__all__ = ["Endpoint", "Machine", "Reply", "TcpServer", "listen"]

_LOG = logging.getLogger(__name__)

_STANDBY = "org.apache.inlong.tubemq.corerpc.exception.StandbyException"
_HANDLER_FAILED = "java.lang.reflect.InvocationTargetException"
_WRONG_TOKEN = b"\x00\x00\x00\x00"
_READ_BYTES = 64 << 10
_ACCEPT_PAUSE_SECONDS = 1.0
_HANDSHAKE_SECONDS = 5.0
_BACKLOG = 1024


class Machine(Protocol):
    """The state machine behind an endpoint: a master or a broker."""

    faults: Faults

    @property
    def methods(self) -> frozenset[Method]: ...

    def serve(self, method: Method, request: Message, now_ms: int, peer: Peer = NOBODY) -> Message | bytes:
        """Answer one call."""


class Reply(NamedTuple):
    """An answer: a stream, and a fault for the connection (`stream` None: send nothing)."""

    stream: bytes | None
    fault: ConnectionFault | None = None
    delay_ms: int = 0


class Endpoint:
    """Answers the requests of all connections to one server."""

    def __init__(self, machine: Machine, clock: Callable[[], int]) -> None:
        self._machine = machine
        self._clock = clock

    def answer(self, stream: bytes, peer: Peer) -> Reply:
        delay_ms = self._machine.faults.answer_delay_ms
        try:
            request = decode_request(stream)
        except ProtocolError as error:
            return Reply(encode_error("java.io.IOException", str(error), fatal=True), None, delay_ms)
        method = method_of(request.method_id)
        if method is None:
            text = f"unknown method {request.method_id}"
            return Reply(encode_error("java.lang.UnsupportedOperationException", text, fatal=True), None, delay_ms)
        fault = self._machine.faults.take_connection_fault(method)
        if fault is ConnectionFault.DROP_BEFORE:
            return Reply(None, fault)
        answer = self._call(method, request, peer)
        if fault in (ConnectionFault.DROP_AFTER, ConnectionFault.SILENCE):
            return Reply(None, fault, delay_ms)
        return Reply(answer, fault, delay_ms)

    def _call(self, method: Method, request: Request, peer: Peer) -> bytes:
        if method not in self._machine.methods or not _service_fits(method, request.service):
            text = f"No method {request.method_id} in service {request.service} found on the server"
            return encode_error("java.lang.Exception", text)
        try:
            message = parse_message(method.spec.request, request.body)
        except ProtocolError as error:
            return encode_error("java.io.IOException", str(error), fatal=True)
        try:
            answer = self._machine.serve(method, message, self._clock(), peer)
        except StandbyRefusal as refusal:
            return encode_error(_STANDBY, str(refusal))
        except Exception:
            # TubeMQ answers the same way when a handler throws: the reflection layer's class, and no text.
            _LOG.exception("%s from %s failed", method.name, peer.address)
            return encode_error(_HANDLER_FAILED, "")
        return encode_response(request.method_id, answer.SerializeToString() if isinstance(answer, Message) else answer)


def _service_fits(method: Method, service: int) -> bool:
    if method is Method.SEND_MESSAGE:
        return service in (BROKER_READ, BROKER_WRITE)
    return service == method.spec.service


async def listen(host: str, port: int) -> socket.socket:
    """A listening socket that does not block, at the first address of `host`. With `port` 0 the system chooses it.

    Raises OSError where the address is unknown, foreign or in use.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = found[0]
    listener = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    listener.setblocking(False)
    return listener


class TcpServer:
    """Listens for one endpoint, over TLS if `tls` is given; owns all its connections."""

    def __init__(self, endpoint: Endpoint, name: str, tls: ssl.SSLContext | None = None) -> None:
        self._endpoint = endpoint
        self._name = name
        self._tls = tls
        self._listener: socket.socket | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port."""
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
        await asyncio.sleep(0)
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
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
            _LOG.warning("%s: cannot accept connections for a while: %s", self._name, error)
            loop.remove_reader(listener)
            loop.call_later(_ACCEPT_PAUSE_SECONDS, self._accept_again, listener)
            return
        task = loop.create_task(self._serve(accepted))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    def _accept_again(self, listener: socket.socket) -> None:
        if self._listener is listener:
            asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    async def _serve(self, accepted: socket.socket) -> None:
        try:
            reader, writer = await self._streams(accepted)
        except OSError as error:
            _LOG.warning("%s: a connection failed: %s", self._name, str(error) or type(error).__name__)
            return
        try:
            await self._answer_all(reader, writer)
        except OSError:
            pass  # the peer has gone
        finally:
            writer.transport.abort()

    async def _streams(self, accepted: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        accepted.setblocking(False)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(_READ_BYTES, loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol,
            accepted,
            ssl=self._tls,
            ssl_handshake_timeout=_HANDSHAKE_SECONDS if self._tls is not None else None,
        )
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    async def _answer_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until the peer has sent all; while it does not read its answers, its further requests stay in the socket."""
        host, port = writer.get_extra_info("peername")[:2]
        peer = Peer(f"{host}:{port}", self._tls is not None)
        decoder = FrameDecoder()
        while data := await reader.read(_READ_BYTES):
            try:
                frames = list(decoder.feed(data))
            except ProtocolError as error:
                _LOG.warning("%s: connection of %s closed: %s", self._name, peer.address, error)
                return
            answers = bytearray()  # one write for many small answers
            for frame in frames:
                reply = self._endpoint.answer(frame.stream, peer)
                if reply.delay_ms:
                    await self._send(writer, answers)
                    await asyncio.sleep(reply.delay_ms / 1000)
                if reply.fault in (ConnectionFault.DROP_BEFORE, ConnectionFault.DROP_AFTER):
                    await self._send(writer, answers)
                    return
                if reply.stream is not None:
                    answer = encode_frame(frame.serial, reply.stream)
                    if reply.fault is ConnectionFault.CORRUPT_FRAME:
                        answer = _WRONG_TOKEN + answer[len(_WRONG_TOKEN) :]
                    answers += answer
                    if len(answers) >= _READ_BYTES:
                        await self._send(writer, answers)
            await self._send(writer, answers)

    @staticmethod
    async def _send(writer: asyncio.StreamWriter, answers: bytearray) -> None:
        if answers:
            writer.write(bytes(answers))
            answers.clear()
            await writer.drain()
