"""Texts of others, such as names of groups and words of servers, as they may be shown."""

from __future__ import annotations

import re
from typing import Final

# Hadoop takes secrets with slashes. A port before a path is none.
_PASSWORD: Final = re.compile(r"(?<=://)[^\s/:@]*:(?!\d{1,5}/)[^\s@]*@")


def printable(text: str) -> str:
    """The text with all that is not printable as an escape, such as `\\x1b`: a terminal obeys control characters,
    wherever they come from. Tabs stay."""
    return "".join(one if one.isprintable() or one == "\t" else ascii(one)[1:-1] for one in text)


def without_passwords(text: str) -> str:
    """The text without the user and password of each URI in it that has both."""
    return _PASSWORD.sub("", text)


def counted(number: int, noun: str) -> str:
    """A number of things, as people write it: 1 client, 2,000 clients."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
