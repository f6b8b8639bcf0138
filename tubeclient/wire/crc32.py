"""CRC-32 of payloads, by the fastest function at hand.

For payloads of 64 to some hundred bytes fastcrc (the extra `speed`) takes half of zlib's time, which is a tenth of all
that a message costs its reader.
"""

from __future__ import annotations

try:
    from fastcrc.crc32 import iso_hdlc as crc32
except ImportError:
    from zlib import crc32  # type: ignore[assignment]  # that one also takes a value to start from

__all__ = ["crc32"]
