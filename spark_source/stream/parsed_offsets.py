"""Caches parsed offsets: Spark passes the same ones several times per batch."""

from __future__ import annotations

from collections import deque
from typing import Any, TypeAlias

from spark_source.offsets.offsets import Offsets

__all__ = ["Json", "ParsedOffsets"]

Json: TypeAlias = dict[str, Any]
"""Offsets in the form of Spark's checkpoint."""

_KEPT = 4
"""Start and end of the batch, start of the previous one, and one more."""


class ParsedOffsets:
    """Remembers the last offsets passed to or from Spark."""

    def __init__(self) -> None:
        self._last: deque[tuple[Json, Offsets]] = deque(maxlen=_KEPT)

    def parse(self, given: Json) -> Offsets:
        """The parsed offsets; ConfigurationError if they are invalid."""
        for text, known in reversed(self._last):
            if text == given:
                return known
        parsed = Offsets.from_dict(given)
        self._last.append((given, parsed))
        return parsed

    def written(self, offsets: Offsets) -> Json:
        """The offsets in Spark's form; Spark will pass them back."""
        self._last.append((offsets.to_dict(), offsets))
        return offsets.to_dict()
