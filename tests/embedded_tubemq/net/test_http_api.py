"""The HTTP server closes what it accepted."""

from __future__ import annotations

import asyncio
import gc
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
