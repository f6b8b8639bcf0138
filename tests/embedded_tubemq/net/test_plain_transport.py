"""The transport of plain connections: order, a slow peer, and every way to end."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from embedded_tubemq.net.plain_transport import PlainTransport

SECONDS = 10.0


class Recorder(asyncio.Protocol):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.received = b""
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.told.append("made")

    def data_received(self, data: bytes) -> None:
        if data == b"fail":
            raise RuntimeError("the protocol failed")
        self.received += data

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[PlainTransport, Recorder, socket.socket]]:
    """A transport, its protocol, and the peer's socket, non-blocking."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        peer = socket.create_connection(listener.getsockname(), SECONDS)
        accepted, _ = listener.accept()
    with peer:
        peer.setblocking(False)
        accepted.setblocking(False)
        recorder = Recorder()
        transport = PlainTransport(accepted, recorder)
        try:
            yield transport, recorder, peer
        finally:
            transport.abort()
            await ended(recorder)
            assert accepted.fileno() == -1


async def ended(recorder: Recorder) -> Exception | None:
    return await asyncio.wait_for(asyncio.shield(recorder.lost), SECONDS)


async def received(peer: socket.socket, count: int) -> bytes:
    """So many bytes, or those up to the end."""
    loop, data = asyncio.get_running_loop(), bytearray()
    while len(data) < count and (some := await asyncio.wait_for(loop.sock_recv(peer, 1 << 20), SECONDS)):
        data += some
    return bytes(data)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():
            await asyncio.sleep(0.001)


def fill(transport: PlainTransport) -> bytes:
    """Write until the socket takes no more, and what that was."""
    sent = b""
    while transport.get_write_buffer_size() < 1 << 20:
        piece = random.Random(len(sent)).randbytes(1 << 20)
        transport.write(piece)
        sent += piece
    return sent


def test_pieces_arrive_in_order_however_many_and_large_they_are() -> None:
    async def run() -> None:
        rng = random.Random(1)
        sizes = [rng.choice([0, 1, 4, 100, 8192, 50_000]) for _ in range(5_000)]
        pieces = [memoryview(rng.randbytes(size)) for size in sizes]
        async with connected() as (transport, recorder, peer):
            transport.writelines(pieces[:4_000])
            transport.writelines(pieces[4_000:])
            assert await received(peer, sum(sizes)) == b"".join(pieces)
            await until(lambda: transport.get_write_buffer_size() == 0)
            assert recorder.told == ["made", "pause", "resume"]
            transport.write(b"more")
            assert await received(peer, 4) == b"more"

    asyncio.run(run())


def test_what_arrives_waits_in_the_socket_while_reading_is_paused() -> None:
    async def run() -> None:
        async with connected() as (transport, recorder, peer):
            assert transport.get_extra_info("peername") == peer.getsockname()
            transport.pause_reading()
            peer.send(b"hello")
            await asyncio.sleep(0.05)
            assert (recorder.received, transport.is_reading()) == (b"", False)
            transport.resume_reading()
            await until(lambda: recorder.received == b"hello")

    asyncio.run(run())


def test_a_peer_that_sends_no_more_gets_what_is_unsent() -> None:
    async def run() -> None:
        async with connected() as (transport, recorder, peer):
            sent = fill(transport)
            peer.shutdown(socket.SHUT_WR)
            await until(transport.is_closing)
            transport.write(b"too late")
            assert await received(peer, len(sent) + 1) == sent
            assert await ended(recorder) is None

    asyncio.run(run())


def test_a_connection_that_is_cut_sends_nothing_more() -> None:
    async def run() -> None:
        async with connected() as (transport, recorder, peer):
            sent = fill(transport)
            transport.abort()
            transport.abort()
            assert not recorder.lost.done(), "told in the middle of a call"
            assert await ended(recorder) is None
            transport.write(b"too late")
            transport.resume_reading()
            assert not transport.is_reading()
            found = await received(peer, len(sent))
            assert len(found) < len(sent)
            assert sent.startswith(found)

    asyncio.run(run())


@pytest.mark.parametrize("writing", [False, True])
def test_a_peer_that_breaks_off_is_told_to_the_protocol(writing: bool) -> None:
    async def run() -> None:
        async with connected() as (transport, recorder, peer):
            if writing:
                fill(transport)
                transport.pause_reading()
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.close()
            assert isinstance(await ended(recorder), ConnectionError)
            assert transport.get_write_buffer_size() == 0

    asyncio.run(run())


def test_a_protocol_that_fails_loses_its_connection_and_the_loop_is_told() -> None:
    async def run() -> None:
        told: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        async with connected() as (_, recorder, peer):
            peer.send(b"fail")
            assert await ended(recorder) is None
            assert [str(context["exception"]) for context in told] == ["the protocol failed"]

    asyncio.run(run())
