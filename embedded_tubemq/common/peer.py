"""The other end of a connection."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["NOBODY", "Peer"]


class Peer(NamedTuple):
    """A client's "host:port", and whether it uses TLS: then it gets the brokers' TLS ports."""

    address: str = ""
    tls: bool = False


NOBODY = Peer()
"""For calls without a connection."""
