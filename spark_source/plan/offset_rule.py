"""Whether the offsets of a partition's messages are known."""

from __future__ import annotations

from enum import Enum

__all__ = ["OffsetRule"]


class OffsetRule(Enum):
    """Whether the offsets of a partition's messages are known; decided from the layout, never from a pack."""

    UNKNOWN = "unknown"
    """Messages of other partitions, or filtered-out messages, lie between them: the column is null."""
    IF_COMPLETE = "if complete"
    """The partition was alone in its store when the batch was first planned, but no longer is. The offsets of a pack
    with a message for every index entry are known."""
    ALWAYS = "always"
    """The partition is alone in its store: every index entry is one of its messages, and a missing message is lost."""
