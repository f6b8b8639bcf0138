"""A socket that listens, for TCP and for HTTP alike."""

from __future__ import annotations

import asyncio
import socket

__all__ = ["listen"]

_BACKLOG = 1024


async def listen(host: str, port: int) -> socket.socket:
    """A listening socket that does not block, at the first address of `host`. With `port` 0 the system chooses it.

    Raises OSError where the address is unknown, foreign or in use.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = found[0]
    listener = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    listener.setblocking(False)
    return listener
