"""From settings to what flows need to be let in: the list of masters, and who we are."""

from __future__ import annotations

import random
import time

from tubeclient.credentials import Credentials
from tubeclient.flows.authority import Authority
from tubeclient.flows.master import MasterList
from tubeclient.settings import ClientSettings
from tubeclient.wire.signature import MAX_NONCE, Signed, sign

__all__ = ["authority_of", "masters_of"]

_REUSE_MS = 1_000
"""A producer signs each message, so a signature is used for so long; servers accept it for 20 s, 5 s at the
least (authValidTimeStampPeriodMs)."""


def authority_of(settings: ClientSettings, visit_token: int | None = None) -> Authority:
    """Who the settings say we are; `visit_token` is one that somebody else got from the master."""
    return Authority(_Signer(settings.credentials) if settings.credentials is not None else None, visit_token)


def masters_of(settings: ClientSettings) -> MasterList:
    """The masters of the settings, with an authority of their own."""
    return MasterList(settings.master_servers, authority_of(settings), tls=settings.tls is not None)


class _Signer:
    """Signs with the clock, the system's random numbers and the password as they are now."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._random = random.SystemRandom()
        self._last: Signed | None = None

    def __call__(self) -> Signed:
        now_ms = time.time_ns() // 1_000_000
        last = self._last
        if last is None or not 0 <= now_ms - last.timestamp_ms < _REUSE_MS:
            nonce = self._random.randrange(MAX_NONCE + 1)
            last = sign(self._credentials.user, self._credentials.read_password(), now_ms, nonce)
            self._last = last
        return last
