"""Signatures, and the text in which brokers get them."""

from __future__ import annotations

import pytest

from tubeclient.errors import ProtocolError
from tubeclient.wire.signature import Signed, parse_joined, sign


def test_the_signature_is_hmac_sha1_in_base64_for_urls() -> None:
    # printf alice17000000000007 | openssl dgst -sha1 -hmac secret -binary | base64, and "=" written as %3D
    signed = sign("alice", "secret", 1_700_000_000_000, 7)
    assert signed == Signed("alice", 1_700_000_000_000, 7, "I2Vpgo9oaTkRy3zuLFYsvJBJSQs%3D")
    assert signed.joined == "alice 1700000000000 7 I2Vpgo9oaTkRy3zuLFYsvJBJSQs%3D"


@pytest.mark.parametrize("text", ["", "alice", "alice 1 2", "alice x 2 s", "alice 1 -2 s", "a b 1 2 s", "alice ² 2 s"])
def test_what_is_no_credential_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError, match="user timestamp nonce signature"):
        parse_joined(text)


def test_a_signature_is_not_printed() -> None:
    signed = sign("alice", "secret", 1, 0)
    assert signed.signature not in repr(signed)
