"""User and password as TubeMQ signs them.

URL-encoded Base64 of HMAC-SHA1 over user, time and nonce (source: TStringUtils).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import quote_plus

from embedded_tubemq.codes import Code
from embedded_tubemq.refusal import Refusal

__all__ = ["MAX_SKEW_MS", "Authenticator", "signature"]

MAX_SKEW_MS = 20_000


def signature(user: str, password: str, timestamp_ms: int, nonce: int) -> str:
    """The signature a client sends."""
    digest = hmac.new(password.encode(), f"{user}{timestamp_ms}{nonce}".encode(), hashlib.sha1).digest()
    return quote_plus(base64.b64encode(digest).decode())


class Authenticator:
    """Knows the users; without any, everybody may do everything (TubeMQ's default)."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = dict(users)

    @property
    def enabled(self) -> bool:
        """Whether credentials are asked for."""
        return bool(self._users)

    def check(self, user: str, timestamp_ms: int, nonce: int, given: str, now_ms: int) -> None:
        """A wrong credential, or one signed more than 20 s from now, is a 415."""
        if not self.enabled:
            return
        password = self._users.get(user)
        expected = signature(user, password or "", timestamp_ms, nonce)
        if password is None or not hmac.compare_digest(expected.encode(), given.encode()):
            raise Refusal(Code.CERTIFICATE_FAILURE, "unknown user, or the signature does not fit the password")
        if abs(now_ms - timestamp_ms) > MAX_SKEW_MS:
            raise Refusal(
                Code.CERTIFICATE_FAILURE, f"the credential's time is more than {MAX_SKEW_MS} ms from the server's"
            )

    def check_joined(self, text: str, now_ms: int) -> None:
        """Check "user timestamp nonce signature", the form brokers get."""
        if not self.enabled:
            return
        parts = text.split(" ")
        if len(parts) != 4 or not (parts[1].isdecimal() and parts[2].isdecimal()):
            raise Refusal(Code.CERTIFICATE_FAILURE, "a credential 'user timestamp nonce signature' is asked for")
        self.check(parts[0], int(parts[1]), int(parts[2]), parts[3], now_ms)
