"""The checksum of payloads is CRC-32, whoever computes it."""

from __future__ import annotations

import zlib

from hypothesis import given
from hypothesis import strategies as st

from tubeclient.wire.crc32 import crc32


@given(st.binary(max_size=600))
def test_it_is_zlibs(payload: bytes) -> None:
    assert crc32(payload) == zlib.crc32(payload)
