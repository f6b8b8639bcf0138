"""Offsets as Spark hands them over, and what they are: Spark brings the same ones back several times a batch."""

from __future__ import annotations

from collections import deque
from typing import Any, TypeAlias

from spark_source.offsets.offsets import Offsets

__all__ = ["Json", "ParsedOffsets"]

Json: TypeAlias = dict[str, dict[str, Any]]
"""Offsets as they stand in Spark's checkpoint."""

_KEPT = 4
"""Where the batch begins and ends, where the one before began, and one more."""


class ParsedOffsets:
    """Remembers the last ones that went to Spark or came from there."""

    def __init__(self) -> None:
        self._last: deque[tuple[Json, Offsets]] = deque(maxlen=_KEPT)

    def parse(self, given: Json) -> Offsets:
        """The offsets that Spark means; ConfigurationError where they are none."""
        for text, known in reversed(self._last):
            if text == given:
                return known
        parsed = Offsets.from_dict(given)
        self._last.append((given, parsed))
        return parsed

    def written(self, offsets: Offsets) -> Json:
        """The offsets as Spark takes them, and will bring them back."""
        self._last.append((offsets.to_dict(), offsets))
        return offsets.to_dict()
