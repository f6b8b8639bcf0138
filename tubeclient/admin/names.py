"""Names as parameters of web calls: lists of them, and what cannot be one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from tubeclient.errors import ConfigurationError

__all__ = ["MAX_NAMES", "as_name", "as_names", "lists_of"]

MAX_NAMES: Final = 1_000
"""How many names or partition keys one call may carry. The servers' Jetty takes forms of up to 200 000 bytes, and
names have up to 64 characters."""


def as_name(what: str, name: str) -> str:
    """`name` without blanks around it; ConfigurationError where it would not mean one `what` but all or several."""
    if not name.strip() or "," in name:
        raise ConfigurationError(f"{name!r} is no name of a {what}; give one name, not empty and without commas")
    return name.strip()


def as_names(what: str, names: Iterable[str]) -> list[str]:
    """The names, each once, sorted; ConfigurationError as for `as_name`."""
    if isinstance(names, str):
        raise ConfigurationError(f"names of {what}s are given as a list, not as the text {names!r}")
    return sorted({as_name(what, name) for name in names})


def lists_of(topics: Iterable[str]) -> Iterator[str]:
    """Values of a list parameter that name all these topics together; for none a single empty one, which means all."""
    names = as_names("topic", topics)
    for start in range(0, max(1, len(names)), MAX_NAMES):
        yield ",".join(names[start : start + MAX_NAMES])
