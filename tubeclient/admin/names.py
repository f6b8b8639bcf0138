"""Names as parameters of web calls: lists of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from tubeclient.names import topic_names

__all__ = ["MAX_NAMES", "lists_of"]

MAX_NAMES: Final = 1_000
"""How many names or partition keys one call may carry. The servers' Jetty takes forms of up to 200 000 bytes, and
names have up to 64 characters."""


def lists_of(topics: Iterable[str]) -> Iterator[str]:
    """Values of a list parameter that name all these topics together; for none a single empty one, which means all."""
    names = topic_names(topics)
    for start in range(0, max(1, len(names)), MAX_NAMES):
        yield ",".join(names[start : start + MAX_NAMES])
