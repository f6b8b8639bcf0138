"""Texts of others, such as names of groups and words of servers, as they may be shown."""

from __future__ import annotations

__all__ = ["printable"]


def printable(text: str) -> str:
    """The text with all that is not printable as an escape, such as `\\x1b`: a terminal obeys control characters,
    wherever they come from. Tabs stay."""
    return "".join(one if one.isprintable() or one == "\t" else ascii(one)[1:-1] for one in text)
