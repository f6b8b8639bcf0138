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
        if not isinstance(topics.pattern, str):
            raise ConfigurationError(f"the pattern of topics is one of bytes, {topics.pattern!r}; names are texts")
        return topics, {}
    if isinstance(topics, str) or not isinstance(topics, Iterable):
        what = "the text " * isinstance(topics, str) + repr(topics)
        raise ConfigurationError(f"topics must be a list of names or a compiled pattern, not {what}")
    given = topics if isinstance(topics, Mapping) else dict.fromkeys(topics, ())
    found = {_topic(name): _tags(name, tags) for name, tags in given.items()}
    if not found:
        raise ConfigurationError("no topic to read was named")
    return None, found


def _topic(name: object) -> str:
    if not isinstance(name, str) or not 0 < len(name.strip()) <= MAX_TOPIC_CHARS:
        raise ConfigurationError(f"{name!r} is no topic: a name has 1 to {MAX_TOPIC_CHARS} characters")
    return name.strip()


def _tags(topic: str, tags: object) -> frozenset[str]:
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        what = "the text " * isinstance(tags, str) + repr(tags)
        raise ConfigurationError(f"the filter of topic {topic} must be a list of tags, not {what}")
    found = [tag.strip() if isinstance(tag, str) else tag for tag in tags]
    for tag in found:
        if not isinstance(tag, str) or not 0 < len(tag) <= MAX_TAG_CHARS or "," in tag or "#" in tag:
            raise ConfigurationError(
                f"{tag!r} in the filter of topic {topic} is no tag: it has 1 to {MAX_TAG_CHARS} characters, "
                "none of them ',' or '#'"
            )
    if len(set(found)) > MAX_TAGS:
        raise ConfigurationError(f"topic {topic} is filtered by {len(set(found))} tags; {MAX_TAGS} is the most")
    return frozenset(found)


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
