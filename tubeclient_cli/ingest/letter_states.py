"""The states of the dead-letter table's rows."""

from __future__ import annotations

from typing import Final

__all__ = ["BAD", "RETRIED", "UNDONE"]

BAD: Final = "bad"
"""State of a record that the target does not have."""
UNDONE: Final = "undone"
"""State of a record whose batch RESTORE took out of the target: the job reads it again, or has."""
RETRIED: Final = "retried"
"""State of a record that could be parsed later: the target has it."""
