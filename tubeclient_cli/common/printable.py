"""Texts for people: those of others, such as names of groups and words of servers, and numbers of things."""

from __future__ import annotations

__all__ = ["counted", "one_line", "printable"]


def printable(text: str) -> str:
    """The text with all that is not printable as an escape, such as `\\x1b`: a terminal obeys control characters,
    wherever they come from. Tabs stay."""
    return "".join(one if one.isprintable() or one == "\t" else ascii(one)[1:-1] for one in text)


def one_line(text: str) -> str:
    """The text, printable and on one line: its lines are joined with blanks."""
    return printable(" ".join(text.splitlines()))


def counted(number: int, noun: str) -> str:
    """A number of things, as people write it: 1 client, 2,000 clients."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
