"""The encodings that records may have: charsets that both Java, which decodes them for Spark, and Python have."""

from __future__ import annotations

import codecs
from typing import Final

from tubeclient.errors import ConfigurationError

__all__ = ["ENCODINGS", "encoding_named"]

ENCODINGS: Final = (
    *("UTF-8", "UTF-16", "UTF-16BE", "UTF-16LE", "UTF-32", "US-ASCII"),
    *("GBK", "GB2312", "GB18030", "Big5", "Big5-HKSCS", "Shift_JIS", "MS932", "EUC-JP", "EUC-KR", "MS949", "KOI8-R"),
    *(f"ISO-8859-{part}" for part in (1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 15)),
    *(f"windows-{page}" for page in range(1250, 1259)),
)
"""Java's names."""


def encoding_named(name: str, setting: str = "encoding") -> str:
    """Java's name of an encoding, by any name that Python has for it. ConfigurationError, which names the
    `setting`: not one of `ENCODINGS`."""
    try:
        return _BY_PYTHONS_NAME[codecs.lookup(name).name]
    except (LookupError, ValueError):  # ValueError: a character that no name has
        raise ConfigurationError(f"{setting} is {name!r}; there are {', '.join(ENCODINGS)}") from None


_BY_PYTHONS_NAME: Final = {codecs.lookup(name).name: name for name in ENCODINGS}
