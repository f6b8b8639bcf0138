"""The offsets between which a store holds messages."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["StoreBounds"]


class StoreBounds(NamedTuple):
    """Index offsets between which a store holds messages, in bytes; `max` is exclusive."""

    min: int
    max: int
