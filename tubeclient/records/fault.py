"""What is wrong with a record."""

from __future__ import annotations


class BadRecord(ValueError):
    """A record that cannot be read. `reason` names the column where there is one, and never shows a value."""

    def __init__(self, reason: str, pos: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.pos = pos
        """The character of the record's text at which the fault is, from 0; None if it is at no single position."""


class Fault(Exception):
    """What is wrong with a value; who knows where it is says so on the way up."""

    def __init__(self, words: str, path: str = "", pos: int = 0) -> None:
        super().__init__(words)
        self.words = words
        """With {} for the path."""
        self.path = path
        self.pos = pos
        """The byte at which the innermost value begins, where the format has it."""

    def within(self, name: str, pos: int = 0) -> Fault:
        """The same fault, of what is called `name` or lies within it, and begins at `pos`."""
        dot = "." if name and self.path and not self.path.startswith("[") else ""
        return Fault(self.words, f"{name}{dot}{self.path}", self.pos or pos)
