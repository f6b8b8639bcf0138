"""A TCP proxy before one port of a server; tests can make it misbehave, and be good again."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from contextlib import ExitStack
from enum import Enum

from embedded_tubemq.net.server import LoopThread
from tests.ports import held_port
from tubeclient.errors import ProtocolError
from tubeclient.net.connection import split_address
from tubeclient.wire.envelope import decode_request, encode_error
from tubeclient.wire.framing import Frame, FrameDecoder, encode_frame
from tubeclient.wire.methods import Method

__all__ = ["FrontDoor", "Manner"]

LATE_SECONDS = 1.5
_PIECE_BYTES = 1 << 16
_PIECES_ON_THE_WAY = 64
_GARBAGE = b"HTTP/1.1 400 Bad Request\r\n\r\n"
_STANDBY = encode_error("org.apache.inlong.tubemq.corerpc.exception.StandbyException", "")


class Manner(Enum):
    """How the address behaves towards those who connect or ask."""

    GOOD = "hands everything on to the server"
    DEAD = "nobody listens"
    SILENT = "hands nothing on, in either direction; what was sent arrives when the manner changes"
    LATE = f"hands everything on later; answers come {LATE_SECONDS} s late"
    GARBAGE = "answers what is not TubeMQ"
    STANDBY = "answers that it is a standby"


class FrontDoor:
    """Listens on a port of its own from the start; a context manager. All methods may be called from any thread."""

    def __init__(self, address: str) -> None:
        self.asked = 0
        """Requests, or parts of such, that arrived here."""
        self.manner = Manner.GOOD
        self._server = split_address(address)
        self._port = ExitStack()
        port = self._port.enter_context(held_port())  # while nobody listens, no other server gets it
        self._listener = socket.create_server(("127.0.0.1", port))
        self.address = f"127.0.0.1:{port}"
        self._accepting: asyncio.Task[None] | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._passable = asyncio.Event()
        self._loop: LoopThread | None = None
        self._to_hold: tuple[Method, int] | None = None
        self._held: list[Frame] = []
        self._deliverable = asyncio.Event()
        self._unanswered = 0

    def __enter__(self) -> FrontDoor:
        self._loop = LoopThread(f"door {self.address}")
        self.become(self.manner)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        self._loop.run(self._shut())
        self._loop.stop()
        self._port.close()

    def become(self, manner: Manner) -> None:
        """Change the manner, also towards those already connected."""
        self.manner = manner
        if self._loop is not None:
            self._loop.run(self._change())

    def break_at(self, method: Method, nth: int) -> None:
        """At the `nth` request of `method` from now on the connection ends for the client, but not for the server: it
        gets that request, and those behind it, with `deliver`.
        """
        self._to_hold = method, nth

    @property
    def holds(self) -> bool:
        """Whether the connection broke, and what was asked on it waits to be delivered."""
        return bool(self._held) and not self._deliverable.is_set()

    def deliver(self) -> None:
        """Let the server have what was held back, alone; returns when it has answered."""
        assert self._loop is not None
        self._loop.run(self._deliver())

    async def _deliver(self) -> None:
        while self._unanswered:
            await asyncio.sleep(0.01)
        self._unanswered = len(self._held)
        self._deliverable.set()
        while self._unanswered:
            await asyncio.sleep(0.01)

    def _is_to_hold(self, frame: Frame) -> bool:
        if self._to_hold is None:
            return False
        method, left = self._to_hold
        if decode_request(frame.stream).method_id != method.spec.method_id:
            return False
        self._to_hold = (method, left - 1) if left > 1 else None
        return left == 1

    async def _change(self) -> None:
        if self.manner is Manner.DEAD:
            await self._shut()
            return
        if self._accepting is None:
            if self._listener.fileno() == -1:
                self._listener = socket.create_server(split_address(self.address))
            self._listener.setblocking(False)
            self._accepting = asyncio.get_running_loop().create_task(self._accept())
        # Nobody is there to take a connection either: the second one that comes gets no answer.
        self._listener.listen(0 if self.manner is Manner.SILENT else socket.SOMAXCONN)
        if self.manner is Manner.SILENT:
            self._passable.clear()
        else:
            self._passable.set()

    async def _shut(self) -> None:
        """Nobody listens, and all connections have ended."""
        ending = [*self._serving, *([self._accepting] if self._accepting is not None else [])]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        self._accepting = None
        self._listener.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._passable.wait()
            client, _ = await loop.sock_accept(self._listener)
            task = loop.create_task(self._serve(client))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)

    async def _serve(self, client: socket.socket) -> None:
        with client, socket.socket() as server:
            client.setblocking(False)
            server.setblocking(False)
            try:
                await asyncio.get_running_loop().sock_connect(server, self._server)
                to_server, to_client = _Way(self, server), _Way(self, client)
                async with asyncio.TaskGroup() as group:
                    for work in (
                        self._requests(client, to_server, to_client),
                        self._answers(server, to_client),
                        to_server.go(self._passable),
                        to_client.go(self._passable),
                    ):
                        group.create_task(work)
            except* (OSError, ProtocolError):
                # Whichever side broke off: the other one notices that by the end of its connection.
                pass

    async def _requests(self, client: socket.socket, to_server: _Way, to_client: _Way) -> None:
        decoder, held = FrameDecoder(), list[Frame]()
        while data := await asyncio.get_running_loop().sock_recv(client, _PIECE_BYTES):
            self.asked += 1
            for frame in decoder.feed(data):
                if self.manner is Manner.GARBAGE:
                    await to_client.put(_GARBAGE)
                elif self.manner is Manner.STANDBY:
                    await to_client.put(encode_frame(frame.serial, _STANDBY))
                elif held or self._is_to_hold(frame):
                    held.append(frame)
                else:
                    self._unanswered += 1
                    await to_server.put(encode_frame(frame.serial, frame.stream))
            if held:
                self._held, to_client.ended = held, True
                client.shutdown(socket.SHUT_RDWR)
                await self._deliverable.wait()
                for frame in held:
                    await to_server.put(encode_frame(frame.serial, frame.stream))
                return
        await to_server.put(b"")

    async def _answers(self, server: socket.socket, to_client: _Way) -> None:
        decoder = FrameDecoder()
        while data := await asyncio.get_running_loop().sock_recv(server, _PIECE_BYTES):
            for frame in decoder.feed(data):
                self._unanswered -= 1
                await to_client.put(encode_frame(frame.serial, frame.stream))
        await to_client.put(b"")


class _Way:
    """What is on its way to one end of a connection: in order, nothing before its time or while the door is silent."""

    def __init__(self, door: FrontDoor, end: socket.socket) -> None:
        self._door = door
        self._end = end
        self.ended = False
        """Whether nothing that comes is handed on any more."""
        self._pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_PIECES_ON_THE_WAY)

    async def put(self, data: bytes) -> None:
        """Add what has come; b"" is the end. Waits while too much is on its way."""
        late = LATE_SECONDS / 2 if self._door.manner is Manner.LATE else 0.0
        await self._pieces.put((asyncio.get_running_loop().time() + late, data))

    async def go(self, passable: asyncio.Event) -> None:
        """Hand on all there is to the end."""
        loop = asyncio.get_running_loop()
        while True:
            due, data = await self._pieces.get()
            await asyncio.sleep(due - loop.time())
            await passable.wait()
            if self.ended:
                continue
            if not data:
                with contextlib.suppress(OSError):  # it may have ended the connection itself
                    self._end.shutdown(socket.SHUT_WR)
                return
            await loop.sock_sendall(self._end, data)
