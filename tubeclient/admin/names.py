"""Lists of names as parameters of web calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from tubeclient.names import topic_names

__all__ = ["MAX_NAMES", "lists_of"]

MAX_NAMES: Final = 1_000
"""The most names or partition keys in one call. The servers' Jetty takes forms of up to 200 000 bytes, and names have
up to 64 characters."""


def lists_of(topics: Iterable[str]) -> Iterator[str]:
    """Values of a list parameter that together name all topics; a single empty value, which means all, for none."""
    names = topic_names(topics)
    for start in range(0, max(1, len(names)), MAX_NAMES):
        yield ",".join(names[start : start + MAX_NAMES])
