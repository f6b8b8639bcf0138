"""What flows need to call a cluster, made from settings: the list of masters, and the proof of who we are."""

from __future__ import annotations

import random
import time

from tubeclient.flows.master import MasterList
from tubeclient.flows.reader import Authority
from tubeclient.settings import ClientSettings, Credentials
from tubeclient.wire.signature import MAX_NONCE, Signed, sign

_REUSE_MS = 1_000
"""How long a signature is used again, since a producer signs each message. Servers accept it for 20 s, at least 5 s
(authValidTimeStampPeriodMs)."""


def authority_of(settings: ClientSettings, visit_token: int | None = None) -> Authority:
    """The proof of who we are, by the settings. `visit_token` is one that another client got from the master."""
    return Authority(_Signer(settings.credentials) if settings.credentials is not None else None, visit_token)


def masters_of(settings: ClientSettings) -> MasterList:
    """The masters of the settings, with their own authority."""
    return MasterList(settings.master_servers, authority_of(settings), tls=settings.tls is not None)


class _Signer:
    """Signs with the present time, the system's random numbers and the present password."""

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
