"""The HTTP interfaces, with aiohttp: any path, GET or a posted form, one JSON answer."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import Callable
from typing import Any

from aiohttp import web

from embedded_tubemq.common.admin import AdminError, Parameters, failed
from embedded_tubemq.net.server import listen

__all__ = ["HttpServer"]

_LOG = logging.getLogger(__name__)
_STOP_SECONDS = 1.0


class HttpServer:
    """One HTTP interface: passes the parameters of each request to `call`."""

    def __init__(self, call: Callable[[Parameters], dict[str, Any]]) -> None:
        self._call = call
        self._runner: web.AppRunner | None = None
        self._listener: socket.socket | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port. With `port` 0 the system chooses it."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, handle_signals=False, access_log=None, shutdown_timeout=_STOP_SECONDS)
        await self._runner.setup()
        self._listener = await listen(host, port)
        await web.SockSite(self._runner, self._listener).start()
        bound: int = self._runner.addresses[0][1]
        return bound

    async def stop(self) -> None:
        """Stop listening and close all connections."""
        if self._runner is not None:
            if self._listener is not None:
                # asyncio never closes a connection that it accepted in the turn of the loop in which its server closes
                # (seen with CPython 3.11). So accept no more, and give it one turn.
                asyncio.get_running_loop().remove_reader(self._listener)
                await asyncio.sleep(0)
            await self._runner.cleanup()
            self._runner = self._listener = None

    async def _answer(self, request: web.Request) -> web.Response:
        values = dict(request.query)
        if request.method == "POST":
            values.update({key: value for key, value in (await request.post()).items() if isinstance(value, str)})
        try:
            answer = self._call(Parameters(values))
        except Exception as error:
            _LOG.exception("%s failed", request.path)
            answer = failed(AdminError(f"internal error: {error}", 500))
        return web.Response(body=json.dumps(answer).encode(), content_type="application/json", charset="utf-8")
