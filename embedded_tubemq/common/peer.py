"""Who is at the other end of a connection."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["NOBODY", "Peer"]


class Peer(NamedTuple):
    """A client's "host:port", and whether it came over TLS: brokers are named to it by their TLS ports then."""

    address: str = ""
    tls: bool = False


NOBODY = Peer()
"""For calls that come over no connection."""
