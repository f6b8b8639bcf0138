"""How requests prove who the client is: user and signature, if there is a user, and the master's visit token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tubeclient.wire.signature import Signed

_NO_TOKEN = -2  # TBaseConstants.META_VALUE_UNDEFINED


class Authority:
    """The proof of who we are, shared by all calls of one client.

    `sign` makes a signature with the present time; None for a client without a user. Masters hand out `visit_token`, a
    number that they renew every few minutes. Brokers that check it remember the last ones.

    Every request that can carry the user's signature does. (Apache's Java clients leave it out until a server asks
    for it, and servers never ask: with authentication on they refuse such a request with 415 instead.)
    """

    def __init__(self, sign: Callable[[], Signed] | None = None, visit_token: int | None = None) -> None:
        self.visit_token = visit_token
        self._sign = sign

    def to_master(self, request: Any) -> None:
        """Fill in the `authInfo` of a request to a master."""
        if self._sign is None:
            return
        signed = self._sign()
        info = request.authInfo.authInfo
        info.userName, info.timestamp, info.nonce = signed.user, signed.timestamp_ms, signed.nonce
        info.othParams, info.signature = "", signed.signature

    def to_broker(self, request: Any) -> None:
        """Fill in the `authInfo` of a request that sends, registers or beats; fetches and commits have none."""
        request.authInfo.visitAuthorizedToken = _NO_TOKEN if self.visit_token is None else self.visit_token
        if self._sign is not None:
            request.authInfo.authAuthorizedToken = self._sign().joined

    def take(self, response: Any) -> None:
        """Keep the visit token of a master's answer, if it has one."""
        if "authorizedInfo" in response.DESCRIPTOR.fields_by_name and response.HasField("authorizedInfo"):
            self.visit_token = response.authorizedInfo.visitAuthorizedToken
