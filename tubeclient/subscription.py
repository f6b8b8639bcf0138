"""What a consumer reads: topics by name, with filters, or by a pattern."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias

from tubeclient.errors import ConfigurationError

__all__ = ["Topics", "matching_topics", "read_topics"]

Topics: TypeAlias = Mapping[str, Collection[str]] | Iterable[str] | re.Pattern[str]
"""Names; names with the tags to filter by; or a pattern that names match as a whole."""

MAX_TOPIC_CHARS, MAX_TAGS, MAX_TAG_CHARS = 64, 500, 256
"""The limits of Apache's clients (TBaseConstants.CFG_MAX_TOPIC_NAME_LENGTH, ..._ITEM_COUNT, ..._ITEM_LENGTH)."""


def read_topics(topics: Topics) -> tuple[re.Pattern[str] | None, dict[str, frozenset[str]]]:
    """Return (pattern, tags by topic): one of them is what was asked for. ConfigurationError for what cannot be."""
    if isinstance(topics, re.Pattern):
        return topics, {}
    if isinstance(topics, str):
        raise ConfigurationError(f"topics must be a list of names or a compiled pattern, not the text {topics!r}")
    given = topics if isinstance(topics, Mapping) else dict.fromkeys(topics, ())
    found: dict[str, frozenset[str]] = {}
    for name, tags in given.items():
        if not name.strip() or len(name.strip()) > MAX_TOPIC_CHARS:
            raise ConfigurationError(f"{name!r} is no topic: a name has 1 to {MAX_TOPIC_CHARS} characters")
        if isinstance(tags, str):
            raise ConfigurationError(f"the filter of topic {name} must be a list of tags, not the text {tags!r}")
        found[name.strip()] = frozenset(tag.strip() for tag in tags)
        if len(found[name.strip()]) > MAX_TAGS:
            raise ConfigurationError(f"topic {name} is filtered by {len(tags)} tags; {MAX_TAGS} is the most")
        for tag in found[name.strip()]:
            if not tag or len(tag) > MAX_TAG_CHARS or "," in tag or "#" in tag:
                raise ConfigurationError(
                    f"{tag!r} in the filter of topic {name} is no tag: it has 1 to {MAX_TAG_CHARS} characters, "
                    "none of them ',' or '#'"
                )
    if not found:
        raise ConfigurationError("no topic to read was named")
    return None, found


def matching_topics(pattern: re.Pattern[str], names: Iterable[str]) -> list[str]:
    """The names that match as a whole, sorted; ConfigurationError where none does."""
    known = sorted(set(names))
    found = [name for name in known if pattern.fullmatch(name)]
    if not found:
        raise ConfigurationError(
            f"no topic matches {pattern.pattern!r}; the cluster has {', '.join(known[:20]) or 'none'}"
            + (f" and {len(known) - 20} more" if len(known) > 20 else "")
        )
    return found
