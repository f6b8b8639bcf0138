"""Authentication: users with passwords, checked by signatures."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from embedded_tubemq.common.codes import Code
from embedded_tubemq.common.refusal import Refusal
from tubeclient.errors import ProtocolError
from tubeclient.wire.signature import Signed, parse_joined, sign

__all__ = ["MAX_SKEW_MS", "Authenticator"]

MAX_SKEW_MS = 20_000


class Authenticator:
    """Knows the users. Without users every client may do everything (TubeMQ's default)."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = dict(users)

    @property
    def enabled(self) -> bool:
        """Whether credentials are required."""
        return bool(self._users)

    def check(self, given: Signed, now_ms: int) -> None:
        """Check a credential. A wrong one, or one signed more than 20 s from now, is a 415."""
        if not self.enabled:
            return
        password = self._users.get(given.user)
        expected = sign(given.user, password or "", given.timestamp_ms, given.nonce).signature
        if password is None or not hmac.compare_digest(expected.encode(), given.signature.encode()):
            raise Refusal(Code.CERTIFICATE_FAILURE, "unknown user, or the signature does not match the password")
        if abs(now_ms - given.timestamp_ms) > MAX_SKEW_MS:
            raise Refusal(
                Code.CERTIFICATE_FAILURE, f"the credential's time is more than {MAX_SKEW_MS} ms from the server's"
            )

    def check_joined(self, text: str, now_ms: int) -> None:
        """Check "user timestamp nonce signature", the form brokers get."""
        if not self.enabled:
            return
        try:
            given = parse_joined(text)
        except ProtocolError as error:
            raise Refusal(Code.CERTIFICATE_FAILURE, str(error)) from error
        self.check(given, now_ms)
