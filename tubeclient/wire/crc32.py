"""CRC-32 of payloads, by the fastest function at hand.

A checksum costs a reader more than anything else that it does with a payload. isal (the extra `speed`) takes a quarter
of zlib's time for 100 bytes, and less for more.
"""

from __future__ import annotations

try:
    from isal.isal_zlib import crc32
except ImportError:
    from zlib import crc32

__all__ = ["crc32"]
