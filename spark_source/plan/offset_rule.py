"""What is known about the offsets of a partition's messages, and from what."""

from __future__ import annotations

from enum import Enum

__all__ = ["OffsetRule"]


class OffsetRule(Enum):
    """What is known about the offsets of a partition's messages; decided from the layout, never from a pack."""

    UNKNOWN = "unknown"
    """Other partitions, or messages that are filtered out, lie between them: the column is null."""
    IF_COMPLETE = "if complete"
    """The partition was alone in its store when the batch was planned first, and no longer is: the offsets of a pack
    with a message for every index entry are known."""
    ALWAYS = "always"
    """The partition is alone in its store: every entry is a message of its own, and a missing one is lost."""
