"""What flows need to call a cluster, made from settings: the list of masters, and the proof of who we are."""

from __future__ import annotations

import random
import time
from functools import partial

from tubeclient.flows.master import MasterList
from tubeclient.flows.reader import Authority
from tubeclient.settings import ClientSettings, Credentials
from tubeclient.wire.signature import MAX_NONCE, Signed, sign


def authority_of(settings: ClientSettings, visit_token: int | None = None) -> Authority:
    """The proof of who we are, by the settings. `visit_token` is one that another client got from the master."""
    credentials = settings.credentials
    return Authority(None if credentials is None else partial(_signed, credentials), visit_token)


def masters_of(settings: ClientSettings) -> MasterList:
    """The masters of the settings, with their own authority."""
    return MasterList(settings.master_servers, authority_of(settings), tls=settings.tls is not None)


def _signed(credentials: Credentials) -> Signed:
    """Sign with the present time, the system's random numbers and the present password."""
    nonce = random.SystemRandom().randrange(MAX_NONCE + 1)
    return sign(credentials.user, credentials.read_password(), time.time_ns() // 1_000_000, nonce)
