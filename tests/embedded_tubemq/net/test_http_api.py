"""The HTTP server closes what it accepted, and answers what it cannot read."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket

import pytest

from embedded_tubemq.net.http_api import HttpServer


@pytest.mark.parametrize("turns", range(4))
def test_connections_that_come_as_it_stops_are_closed_too(turns: int) -> None:
    async def one_life() -> None:
        server = HttpServer(lambda _: {})
        port = await server.start("127.0.0.1", 0)
        clients = [socket.socket() for _ in range(8)]
        for client in clients:
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", port))
        for _ in range(turns):
            await asyncio.sleep(0)
        await server.stop()
        for client in clients:
            client.close()

    for _ in range(5):
        asyncio.run(one_life())
    # A connection left open is a ResourceWarning when it is collected; pytest makes it an error of this test.
    gc.collect()


@pytest.mark.parametrize(
    "content_type",
    [
        "multipart/form-data",
        "application/x-www-form-urlencoded; charset=none",
        "application/x-www-form-urlencoded\r\nContent-Encoding: gzip",
    ],
)
def test_a_form_that_cannot_be_read_is_answered(content_type: str, caplog: pytest.LogCaptureFixture) -> None:
    async def ask() -> bytes:
        server = HttpServer(lambda _: {})
        port = await server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Type: {content_type}\r\nContent-Length: 3"
        writer.write(f"{head}\r\n\r\na=b".encode())
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        await server.stop()
        return answer

    assert b'"errCode":400,"errMsg":"the posted form cannot be read' in asyncio.run(ask()).replace(b": ", b":")
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_a_client_that_goes_away_within_its_form_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def go() -> None:
        server = HttpServer(lambda _: {})
        port = await server.start("127.0.0.1", 0)
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        head = (
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 99\r\n\r\n"
        )
        writer.write(head.encode() + b"Content-Length: 99\r\n\r\n--x\r\n")
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.close()
        await writer.wait_closed()
        await asyncio.sleep(0.05)
        await server.stop()

    asyncio.run(go())
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
