"""A socket that listens, for TCP and for HTTP alike."""

from __future__ import annotations

import asyncio
import socket

__all__ = ["hold", "listen"]

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
