"""The checksum of payloads is CRC-32, whoever computes it."""

from __future__ import annotations

import subprocess
import sys
import zlib

from hypothesis import given
from hypothesis import strategies as st
from isal import isal_zlib

from tubeclient.wire.crc32 import crc32


@given(st.binary(max_size=600))
def test_it_is_zlibs(payload: bytes) -> None:
    assert crc32(payload) == zlib.crc32(payload)


def test_the_faster_one_is_used_where_it_is_installed() -> None:
    assert crc32 is isal_zlib.crc32


def test_zlibs_is_used_where_it_is_not() -> None:
    program = (
        "import sys, zlib; sys.modules['isal'] = None\n"
        "from tubeclient.wire.crc32 import crc32; raise SystemExit(crc32 is not zlib.crc32)"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0
