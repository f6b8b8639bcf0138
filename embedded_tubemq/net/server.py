"""TCP, TLS and HTTP in front of the state machines: frames in, frames out; each connection's requests are answered in
order. All of it runs on one asyncio loop, which may have a thread of its own."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from aiohttp import web
from google.protobuf.message import Message

from embedded_tubemq.broker.broker import Broker
from embedded_tubemq.common.catalogue import Peer
from embedded_tubemq.common.refusal import ConnectionFault, StandbyRefusal
from embedded_tubemq.master.master import Master
from embedded_tubemq.net.admin import Call, Parameters, failed
from tubeclient.errors import ProtocolError
from tubeclient.wire.envelope import Request, decode_request, encode_error, encode_response, parse_message
from tubeclient.wire.framing import Frame, FrameDecoder, encode_frame
from tubeclient.wire.methods import BROKER_READ, BROKER_WRITE, Method, method_of

T = TypeVar("T")
_LOG = logging.getLogger(__name__)

_STANDBY = "org.apache.inlong.tubemq.corerpc.exception.StandbyException"
_HANDLER_FAILED = "java.lang.reflect.InvocationTargetException"
_WRONG_TOKEN = b"\x00\x00\x00\x00"
_READ_BYTES = 64 << 10
_BACKLOG = 1024
_CALL_SECONDS = 30.0
_HANDSHAKE_SECONDS = 5.0


class LoopThread:
    """An asyncio loop on its own thread, from its construction to `stop`. Every wait for it has an end."""

    def __init__(self, name: str) -> None:
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = self._runner.get_loop()
        self._stopped = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and return its result. TimeoutError after 30 s."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(_CALL_SECONDS)
        except TimeoutError:
            future.cancel()
            raise

    def call(self, work: Callable[[], T]) -> T:
        async def run() -> T:
            return work()

        return self.run(run())

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(_CALL_SECONDS)

    def _run(self) -> None:
        with self._runner:
            self._runner.run(self._stopped.wait())


class Endpoint:
    """Between the streams of requests and answers of all connections and a state machine, without sockets."""

    def __init__(self, machine: Master | Broker, clock: Callable[[], int]) -> None:
        self.machine = machine
        self._clock = clock

    def answers(self, frames: list[Frame], peer: Peer) -> Iterator[tuple[bytes | None, ConnectionFault | None]]:
        """For each frame, in order, the one that answers it, or None to send nothing; and a fault for the connection.
        Messages that came together are stored together."""
        at = 0
        while at < len(frames):
            many = self.machine.store_sends(frames, at, self._clock()) if isinstance(self.machine, Broker) else []
            for stored in many or [None]:
                if stored is not None:
                    yield stored, None
                else:
                    stream, fault = self.answer(frames[at].stream, peer)
                    yield None if stream is None else encode_frame(frames[at].serial, stream), fault
                at += 1

    def answer(self, stream: bytes, peer: Peer) -> tuple[bytes | None, ConnectionFault | None]:
        """The answer's stream, or None to send nothing; and a fault for the connection."""
        try:
            request = decode_request(stream)
        except ProtocolError as error:
            return encode_error("java.io.IOException", str(error), fatal=True), None
        method = method_of(request.method_id)
        if method is None:
            text = f"unknown method {request.method_id}"
            return encode_error("java.lang.UnsupportedOperationException", text, fatal=True), None
        fault = self.machine.faults.take_connection_fault(method)
        if fault is ConnectionFault.DROP_BEFORE:
            return None, fault
        answer = self._call(method, request, peer)
        return None if fault in (ConnectionFault.DROP_AFTER, ConnectionFault.FALL_SILENT) else answer, fault

    def _call(self, method: Method, request: Request, peer: Peer) -> bytes:
        services = (BROKER_READ, BROKER_WRITE) if method is Method.SEND_MESSAGE else (method.spec.service,)
        if method not in self.machine.methods or request.service not in services:
            text = f"No method {request.method_id} in service {request.service} found on the server"
            return encode_error("java.lang.Exception", text)
        try:
            message = parse_message(method.spec.request, request.body)
        except ProtocolError as error:
            return encode_error("java.io.IOException", str(error), fatal=True)
        try:
            answer = self.machine.serve(method, message, self._clock(), peer)
        except StandbyRefusal as refusal:
            return encode_error(_STANDBY, str(refusal))
        except Exception:
            # TubeMQ answers the same way when a handler throws: the reflection layer's class, and no text.
            _LOG.exception("%s from %s failed", method.name, peer.address)
            return encode_error(_HANDLER_FAILED, "")
        return encode_response(request.method_id, answer.SerializeToString() if isinstance(answer, Message) else answer)


def bind(host: str, port: int) -> socket.socket:
    """A socket at the first address of `host`; with `port` 0 the system chooses it. OSError where that is not to be
    had."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = found[0]
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Connections that were cut a moment ago still count as users of the port.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise OSError(error.errno, f"{error.strerror}: {host}:{port}") from None
    return bound


def _listen(host: str, port: int) -> socket.socket:
    listener = bind(host, port)
    listener.listen(_BACKLOG)
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
        self._listener = _listen(host, port)
        asyncio.get_running_loop().add_reader(self._listener, self._accept, self._listener)
        bound: int = self._listener.getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Stop listening and cut all connections, for good."""
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
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
        try:
            accepted, _ = listener.accept()
        except OSError:
            return  # it has gone again, or no file descriptor is free: the loop calls again
        task = asyncio.get_running_loop().create_task(self._serve(accepted))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(_READ_BYTES, loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        seconds = None if self._tls is None else _HANDSHAKE_SECONDS
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol, accepted, ssl=self._tls, ssl_handshake_timeout=seconds
            )
        except OSError as error:
            _LOG.warning("%s: a connection failed: %s", self._name, str(error) or type(error).__name__)
            return
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        try:
            await self._answer_all(reader, writer)
        except OSError:
            pass  # the peer has gone
        finally:
            writer.transport.abort()

    async def _answer_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until the peer has sent all; while it does not read its answers, its further requests stay in the socket."""
        host, port = writer.get_extra_info("peername")[:2]
        peer = Peer(f"{host}:{port}", self._tls is not None)
        decoder, faults = FrameDecoder(), self._endpoint.machine.faults
        while data := await reader.read(_READ_BYTES):
            try:
                frames = decoder.feed(data)
            except ProtocolError as error:
                _LOG.warning("%s: connection of %s closed: %s", self._name, peer.address, error)
                return
            answers = bytearray()  # one write for many small answers
            for answer, fault in self._endpoint.answers(frames, peer):
                if delay_ms := faults.answer_delay_ms:
                    await self._send(writer, answers)
                    await asyncio.sleep(delay_ms / 1000)
                if fault in (ConnectionFault.DROP_BEFORE, ConnectionFault.DROP_AFTER):
                    await self._send(writer, answers)
                    return
                if fault is ConnectionFault.FALL_SILENT:
                    await self._send(writer, answers)
                    while await reader.read(_READ_BYTES):
                        pass
                    return
                if answer is not None:
                    if fault is ConnectionFault.CORRUPT_FRAME:
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


class HttpServer:
    """One HTTP interface: any path, GET or a posted form; passes the parameters of each request to `call`."""

    def __init__(self, call: Call) -> None:
        self._call = call
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, handle_signals=False, access_log=None, shutdown_timeout=1.0)

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port."""
        await self._runner.setup()
        await web.SockSite(self._runner, _listen(host, port)).start()
        bound: int = self._runner.addresses[0][1]
        return bound

    async def stop(self) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        values = dict(request.query)
        if request.method == "POST":
            values.update({key: value for key, value in (await request.post()).items() if isinstance(value, str)})
        try:
            answer = self._call(Parameters(values))
        except Exception as error:
            _LOG.exception("%s failed", request.path)
            answer = failed(error, 500)
        return web.Response(body=json.dumps(answer).encode(), content_type="application/json", charset="utf-8")
