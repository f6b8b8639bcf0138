"""What a consumer reads: topics by name, with filters, or by a pattern."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias

from tubeclient.errors import ConfigurationError
from tubeclient.names import checked_filters, topic_name

__all__ = ["Topics", "matching_topics", "read_topics"]

Topics: TypeAlias = Mapping[str, Collection[str]] | Iterable[str] | re.Pattern[str]
"""Names, or names with the tags to filter by, or a pattern that must match a whole name."""


def read_topics(topics: Topics) -> tuple[re.Pattern[str] | None, dict[str, frozenset[str]]]:
    """Return (pattern, tags by topic). One of them is empty. ConfigurationError for what cannot be topics."""
    if isinstance(topics, re.Pattern):
        if not isinstance(topics.pattern, str):
            raise ConfigurationError(f"the pattern of topics is one of bytes, {topics.pattern!r}; names are texts")
        return topics, {}
    if isinstance(topics, str) or not isinstance(topics, Iterable):
        what = "the text " * isinstance(topics, str) + repr(topics)
        raise ConfigurationError(f"topics must be a list of names or a compiled pattern, not {what}")
    given = topics if isinstance(topics, Mapping) else dict.fromkeys(map(topic_name, topics), ())
    found = checked_filters(given)
    if not found:
        raise ConfigurationError("no topic to read was named")
    return None, found


def matching_topics(pattern: re.Pattern[str], names: Iterable[str]) -> list[str]:
    """The names that the pattern matches as a whole, sorted. ConfigurationError if there are none."""
    known = sorted(set(names))
    found = [name for name in known if pattern.fullmatch(name)]
    if not found:
        raise ConfigurationError(
            f"no topic matches {pattern.pattern!r}; the cluster has {', '.join(known[:20]) or 'none'}"
            + (f" and {len(known) - 20} more" if len(known) > 20 else "")
        )
    return found
