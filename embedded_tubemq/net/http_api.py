"""The HTTP interfaces, with aiohttp: any path, GET or a posted form, one JSON answer."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

from aiohttp import web

from embedded_tubemq.common.admin import Parameters, failed
from embedded_tubemq.net.server import listen

__all__ = ["HttpServer"]

_LOG = logging.getLogger(__name__)
_STOP_SECONDS = 1.0


class HttpServer:
    """One HTTP interface: passes the parameters of each request to `call`."""

    def __init__(self, call: Callable[[Parameters], dict[str, Any]]) -> None:
        self._call = call
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, handle_signals=False, access_log=None, shutdown_timeout=_STOP_SECONDS)

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port."""
        await self._runner.setup()
        await web.SockSite(self._runner, await listen(host, port)).start()
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
