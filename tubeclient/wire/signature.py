"""TubeMQ's signatures of user and password.

A signature is the URL-encoded Base64 of HMAC-SHA1 over user, time and nonce, keyed by the password. Masters get the
four values as fields, brokers as one text "user timestamp nonce signature" (sources: TStringUtils.getAuthSignature,
SimpleClientAuthenticateHandler).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass, field
from urllib.parse import quote_plus

from tubeclient.errors import ProtocolError
from tubeclient.keys import is_plain_number

MAX_NONCE = (1 << 31) - 1
"""Nonces are int32 and not negative."""


@dataclass(frozen=True, slots=True)
class Signed:
    """A signed user at `timestamp_ms` (since 1970); valid as long as servers accept that time."""

    user: str
    timestamp_ms: int
    nonce: int
    signature: str = field(repr=False)

    @property
    def joined(self) -> str:
        """The form for brokers."""
        return f"{self.user} {self.timestamp_ms} {self.nonce} {self.signature}"


def sign(user: str, password: str, timestamp_ms: int, nonce: int) -> Signed:
    """Sign `user` at a time, with a random `nonce` from 0 to `MAX_NONCE`."""
    digest = hmac.new(password.encode(), f"{user}{timestamp_ms}{nonce}".encode(), hashlib.sha1).digest()
    return Signed(user, timestamp_ms, nonce, quote_plus(base64.b64encode(digest)))


def parse_joined(text: str) -> Signed:
    """Parse the text of `Signed.joined`; ProtocolError for anything else."""
    parts = text.split(" ")
    if len(parts) != 4 or not all(map(is_plain_number, parts[1:3])):
        raise ProtocolError("a credential is 'user timestamp nonce signature'")
    return Signed(parts[0], int(parts[1]), int(parts[2]), parts[3])
