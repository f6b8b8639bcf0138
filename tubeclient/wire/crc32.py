"""CRC-32 of payloads, with the fastest library available.

The checksum is a reader's largest cost per payload. isal (the extra `speed`) takes a quarter of zlib's time for 100
bytes, and less for more.
"""

from __future__ import annotations

try:
    from isal.isal_zlib import crc32
except ImportError:
    from zlib import crc32

__all__ = ["crc32"]
