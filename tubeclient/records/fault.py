"""What is wrong with a record."""

from __future__ import annotations


class BadRecord(ValueError):
    """A record that cannot be read. `reason` names the column where there is one, and never shows a value."""

    def __init__(self, reason: str, place: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.place = place
        """The character of the record's text at which the fault is, from 0; None if it is at no one place."""
