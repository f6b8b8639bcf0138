"""Refusals of the state machines, and the checks that master and broker share: names and signatures."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from embedded_tubemq.common.codes import Code
from tubeclient.errors import ProtocolError
from tubeclient.wire.signature import Signed, parse_joined, sign

__all__ = [
    "MAX_CLIENT_CHARS",
    "MAX_GROUP_CHARS",
    "MAX_HOST_CHARS",
    "Authenticator",
    "Refusal",
    "StandbyRefusal",
    "checked_name",
]

# Lengths in characters; source: section "sizes" of TubeMQ's TBaseConstants (client, group, host).
MAX_CLIENT_CHARS = 1024
MAX_GROUP_CHARS = 1024
MAX_HOST_CHARS = 256

_MAX_SKEW_MS = 20_000


class Refusal(Exception):
    """The call is refused with `code`; the answer has `text`. `wait_ms` goes with 452."""

    def __init__(self, code: int, text: str, *, wait_ms: int = 0) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text
        self.wait_ms = wait_ms


class StandbyRefusal(Exception):
    """This master is a standby: the RPC layer answers with StandbyException instead of a code."""


def checked_name(name: str, what: str, most: int) -> str:
    """Return `name` without surrounding blanks. A blank name, or one of more than `most` characters, is a 400."""
    name = name.strip()
    if not name:
        raise Refusal(Code.BAD_REQUEST, f"the request names no {what}")
    if len(name) > most:
        raise Refusal(Code.BAD_REQUEST, f"the {what} is {len(name)} characters long; {most} are allowed")
    return name


class Authenticator:
    """Knows the users and their passwords. Without users every client may do everything (TubeMQ's default)."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = dict(users)

    @property
    def enabled(self) -> bool:
        return bool(self._users)

    def check(self, given: Signed, now_ms: int) -> None:
        """Check a credential. A wrong one, or one signed more than 20 s from now, is a 415."""
        password = self._users.get(given.user)
        expected = sign(given.user, password or "", given.timestamp_ms, given.nonce).signature
        if password is None or not hmac.compare_digest(expected.encode(), given.signature.encode()):
            raise Refusal(Code.CERTIFICATE_FAILURE, "unknown user, or the signature does not match the password")
        if abs(now_ms - given.timestamp_ms) > _MAX_SKEW_MS:
            raise Refusal(
                Code.CERTIFICATE_FAILURE, f"the credential's time is more than {_MAX_SKEW_MS} ms from the server's"
            )

    def check_joined(self, text: str, now_ms: int) -> None:
        """Check "user timestamp nonce signature", the form brokers get."""
        try:
            given = parse_joined(text)
        except ProtocolError as error:
            raise Refusal(Code.CERTIFICATE_FAILURE, str(error)) from error
        self.check(given, now_ms)
