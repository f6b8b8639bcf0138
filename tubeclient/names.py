"""What topics, groups and tags may be called: the one rule for whatever takes a name from a user.

TubeMQ writes names into texts of its own, and a name that holds one of their separators is read as another name, or as
none (TokenConstants): "topic#tag,tag" for filters, "consumerId@group#brokerId:host:port#topic:partitionId" for
partitions, "brokerId:topic:partitionId=offset,..." for offsets, "$msgType$=tag,key=value" in a message.

What no text of the wire forbids is allowed, as Apache's brokers do. Its master makes topics of a letter and letters,
digits and "_" only, its clients read as groups that may have "-" as well (RegexDef.TMP_STRING, TMP_GROUP); other names
are refused by the server that does not know them. Tags are free in Apache's Java client, InLong's stream ids have dots
and hyphens, and a blank, ":" or "@" separates nothing where tags stand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from tubeclient.errors import ConfigurationError

__all__ = [
    "MAX_READER_GROUPS",
    "checked_filters",
    "checked_reader_groups",
    "checked_tags",
    "group_name",
    "reader_groups_of",
    "tag_name",
    "topic_name",
    "topic_names",
    "why_no_group",
]

MAX_TAGS = 500
"""Of one filter (TBaseConstants.CFG_FLT_MAX_FILTER_ITEM_COUNT)."""

MAX_READER_GROUPS = 8
"""Size of the pool of groups that ranges are read under: bounds what is left on a broker, and how many may read one
partition at once.
"""

_READER_GROUP = re.compile(r"(.+)-r\d+")


class _Rule(NamedTuple):
    what: str
    most: int
    """In UTF-16 units, as Java counts."""
    wrong: re.Pattern[str]
    """What no name holds. Surrogates are no UTF-8, which all texts of the wire are."""
    without: str


_TOPIC = _Rule(
    "topic",
    64,  # META_MAX_TOPICNAME_LENGTH
    re.compile(r"[\s\x00-\x1f\x7f-\x9f\ud800-\udfff#@:,=]"),
    "no blanks and none of # @ : , =",
)
_GROUP = _TOPIC._replace(what="group", most=1_024)  # META_MAX_GROUPNAME_LENGTH
_TAG = _Rule("tag", 256, re.compile(r"[\ud800-\udfff#,=]"), "none of # , =")  # CFG_FLT_MAX_FILTER_ITEM_LENGTH


def topic_name(name: object) -> str:
    """`name` without blanks around it; ConfigurationError where no topic can be called so."""
    return _checked(_TOPIC, name)


def topic_names(names: Iterable[str]) -> list[str]:
    """The names, each once, sorted; ConfigurationError as for `topic_name`."""
    if isinstance(names, str):
        raise ConfigurationError(f"topics are given as a list of names, [{names!r}], not as a text")
    return sorted({topic_name(name) for name in names})


def group_name(name: object) -> str:
    """`name` without blanks around it; ConfigurationError where no consumer group can be called so."""
    return _checked(_GROUP, name)


def tag_name(name: object) -> str:
    """`name` without blanks around it; ConfigurationError where no message can have it, or no reader filter by it."""
    return _checked(_TAG, name)


def checked_tags(topic: str, tags: object) -> frozenset[str]:
    """What a topic is filtered by, () for all of it; ConfigurationError, with the topic, where no reader can."""
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        what = "the text " * isinstance(tags, str) + repr(tags)
        raise ConfigurationError(f"the filter of topic {topic} must be a list of tags, not {what}")
    try:
        found = frozenset(map(tag_name, tags))
    except ConfigurationError as error:
        raise ConfigurationError(f"the filter of topic {topic} cannot be used: {error}") from None
    if len(found) > MAX_TAGS:
        raise ConfigurationError(f"topic {topic} is filtered by {len(found)} tags; {MAX_TAGS} is the most")
    return found


def checked_filters(filters: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
    """Tags by topic, as `topic_name` and `checked_tags` return them."""
    return {topic_name(topic): checked_tags(topic, tags) for topic, tags in filters.items()}


def reader_groups_of(group: str) -> tuple[str, ...]:
    """The groups under which the ranges of `group` are read unless the user names others: GROUP-r0 to GROUP-r7.

    Registering at an offset moves a group's stored position, so reading never happens under the user's own group.
    """
    return tuple(f"{group}-r{number}" for number in range(MAX_READER_GROUPS))


def checked_reader_groups(groups: Iterable[str]) -> tuple[str, ...]:
    """The groups to read under, each once, in the given order; ConfigurationError for none, and as for `group_name`."""
    if isinstance(groups, str):
        raise ConfigurationError(f"readerGroups are given as a list of names, [{groups!r}], not as a text")
    found = tuple(dict.fromkeys(map(group_name, groups)))
    if not found:
        raise ConfigurationError("readerGroups names no group")
    return found


def why_no_group(group: str) -> str | None:
    """Why nothing should keep a place of its own under the name `group`; None where it may. The rest of the sentence
    "<what names it> is <group>, ...".
    """
    found = _READER_GROUP.fullmatch(group)
    if found is None:
        return None
    return (
        f"the form of a reader group: whoever reads ranges as group {found[1]} moves the position of such groups on "
        "the brokers, and messages would be repeated or left out. Take a name that does not end in -r and a number"
    )


def _checked(rule: _Rule, name: object) -> str:
    if not isinstance(name, str):
        raise _refusal(rule, name)
    return _checked_text(rule, name)


@lru_cache(maxsize=4_096)  # of each message that is sent
def _checked_text(rule: _Rule, name: str) -> str:
    bare = name.strip()
    units = len(bare.encode("utf-16-le", "surrogatepass")) // 2
    if not 0 < units <= rule.most or rule.wrong.search(bare):
        raise _refusal(rule, name)
    return bare


def _refusal(rule: _Rule, name: object) -> ConfigurationError:
    return ConfigurationError(f"{name!r} is no {rule.what}: it has 1 to {rule.most} characters, {rule.without}")
