"""Texts for people: those of others, such as names of groups and words of servers, and numbers of things."""

from __future__ import annotations

from tubeclient.printable import counted, printable, without_passwords

__all__ = ["counted", "one_line", "printable"]


def one_line(text: str) -> str:
    """The text, printable, without passwords of URIs, and on one line: its lines are joined with blanks."""
    return printable(without_passwords(" ".join(text.splitlines())))
