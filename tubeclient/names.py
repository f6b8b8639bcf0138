"""Rules for names of topics, groups and tags, for all names from users.

TubeMQ writes names into its own texts. A name with one of their separators would be read as another name, or as none
(TokenConstants): "topic#tag,tag" for filters, "consumerId@group#brokerId:host:port#topic:partitionId" for partitions,
"brokerId:topic:partitionId=offset,..." for offsets, "$msgType$=tag,key=value" in a message.

All other names are allowed, as on Apache's brokers. Apache's master creates topics only from a letter followed by
letters, digits and "_"; its clients also allow "-" in groups (RegexDef.TMP_STRING, TMP_GROUP). A server refuses names
that it does not know. Tags are free in Apache's Java client: InLong's stream ids have dots and hyphens, and a blank,
":" or "@" separates nothing in texts with tags.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple, NewType, TypeAlias
from urllib.parse import quote

from tubeclient.errors import ConfigurationError

MAX_TAGS = 500
"""Of one filter (TBaseConstants.CFG_FLT_MAX_FILTER_ITEM_COUNT)."""

MAX_READER_GROUPS = 8
"""The number of reader groups by default. It limits the groups left on a broker, and the parallel readers of a
partition."""

MAX_STORED_GROUP = 241
"""In an offsets table, of which file systems take 255: the folder is "consumerGroup=" and the name, percent-encoded."""

GroupName = NewType("GroupName", str)
"""A consumer group's name, without blanks around it: servers trim names, so what keeps anything by name must too. Only
`group_name` makes one."""

_READER_GROUP = re.compile(r"(.+)-r\d+")


class _Rule(NamedTuple):
    what: str
    most: int
    """In UTF-16 units, as in Java."""
    wrong: re.Pattern[str]
    """Not allowed in the name. Surrogates are not UTF-8, and all texts on the wire are."""
    without: str


_TOPIC = _Rule(
    "topic",
    64,  # META_MAX_TOPICNAME_LENGTH
    re.compile(r"[\s\x00-\x1f\x7f-\x9f\ud800-\udfff#@:,=]"),
    "no blanks and none of # @ : , =",
)
_NEW_TOPIC = re.compile(r"[A-Za-z][A-Za-z0-9_]+")  # RegexDef.TMP_STRING
_GROUP = _TOPIC._replace(what="group", most=1_024)  # META_MAX_GROUPNAME_LENGTH
_TAG = _Rule("tag", 256, re.compile(r"[\ud800-\udfff#,=]"), "none of # , =")  # CFG_FLT_MAX_FILTER_ITEM_LENGTH


def topic_name(name: object) -> str:
    """`name` without surrounding blanks; ConfigurationError if it is not a valid topic name."""
    return _checked(_TOPIC, name)


def _listed(given: object, what: str, example: str) -> list[object]:
    """What a list of names holds. ConfigurationError, which begins with `what`, for a text or no list at all."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ConfigurationError(f"{what} must be a list of names, such as {example}, not {given!r}")
    return list(given)


def topic_names(names: Iterable[str]) -> list[str]:
    """The names, distinct and sorted; ConfigurationError as for `topic_name`."""
    return sorted({topic_name(name) for name in _listed(names, "topics", '["clicks"]')})


def topic_pattern(value: object) -> re.Pattern[str]:
    """A regular expression for whole names of topics, of a text or compiled. ValueError, whose text goes on after the
    name of an option, for anything else."""
    if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
        return value
    if not isinstance(value, str) or not value:
        raise ValueError(f"is {value!r}; use a regular expression that matches whole topic names, such as 'clicks_.*'")
    try:
        return re.compile(value)
    except re.error as error:
        raise ValueError(f"is {value!r}, which is not a Python regular expression: {error}") from None


def new_topic_name(name: object) -> str:
    """`name` without surrounding blanks; ConfigurationError if Apache's master creates no topic of that name."""
    found = topic_name(name)
    if not _NEW_TOPIC.fullmatch(found):
        raise ConfigurationError(
            f"{name!r} is not a valid name for a new topic: use 2 to {_TOPIC.most} ASCII characters, a letter first, "
            "then letters, digits and _, such as clicks_2"
        )
    return found


def group_name(name: object) -> GroupName:
    """`name` without surrounding blanks; ConfigurationError if it is not a valid consumer group name."""
    return GroupName(_checked(_GROUP, name))


def stored_group_name(name: object) -> GroupName:
    """As `group_name`, for an offsets table; ConfigurationError also for a name that is too long there."""
    found = group_name(name)
    if (length := len(quote(found, safe=""))) > MAX_STORED_GROUP:
        raise ConfigurationError(
            f"group {found[:20]}... is too long for an offsets table, which stores each group in a folder of its "
            f"name. The limit is {MAX_STORED_GROUP} characters, where any but letters, digits, '.', '-' and '_' "
            f"count 3 for each UTF-8 byte, and this name has {length}. Use a shorter name, or no offsets table"
        )
    return found


def tag_name(name: object) -> str:
    """`name` without surrounding blanks; ConfigurationError if no message can have it, or no reader filter by it."""
    return _checked(_TAG, name)


def checked_tags(topic: str, tags: object) -> frozenset[str]:
    """A topic's filter tags, () for all messages; ConfigurationError, with the topic, if they are invalid."""
    try:
        found = frozenset(map(tag_name, _listed(tags, "tags", '["web"]')))
    except ConfigurationError as error:
        raise ConfigurationError(f"the filter of topic {topic} cannot be used: {error}") from None
    if len(found) > MAX_TAGS:
        raise ConfigurationError(f"topic {topic} is filtered by {len(found)} tags; the limit is {MAX_TAGS}")
    return found


def checked_filters(filters: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
    """Tags by topic, checked by `topic_name` and `checked_tags`. ConfigurationError for a topic that comes twice, with
    other blanks around it."""
    found: dict[str, frozenset[str]] = {}
    for given, tags in filters.items():
        topic = topic_name(given)
        if topic in found:
            raise ConfigurationError(f"topic {topic} is named twice; keep one of the entries")
        found[topic] = checked_tags(given, tags)
    return found


def reader_groups_of(group: str) -> tuple[str, ...]:
    """Return the default reader groups of `group`: GROUP-r0 to GROUP-r7.

    Registering at an offset moves a group's stored position. So ranges are never read with the user's own group.
    """
    return tuple(f"{group}-r{number}" for number in range(MAX_READER_GROUPS))


def checked_reader_groups(groups: Iterable[str]) -> tuple[str, ...]:
    """The reader groups, distinct, in the given order; ConfigurationError for none, and as for `group_name`."""
    found = tuple(dict.fromkeys(map(group_name, _listed(groups, "reader groups", '["etl-r0"]'))))
    if not found:
        raise ConfigurationError("no reader group is given; name at least one")
    return found


def why_no_group(group: str) -> str | None:
    """Why `group` must not be used as a consumer group; None if it may. The rest of the sentence "<what names it> is
    <group>, ..."."""
    found = _READER_GROUP.fullmatch(group)
    if found is None:
        return None
    return (
        f"the form of a reader group: reading ranges for group {found[1]} moves the positions of such groups on the "
        "brokers, so messages would be repeated or lost. Use a name that does not end in -r and a number"
    )


def _checked(rule: _Rule, name: object) -> str:
    bare = _bare(rule, name) if isinstance(name, str) else None
    if bare is None:
        raise ConfigurationError(f"{name!r} is not a {rule.what} name: use 1 to {rule.most} characters, {rule.without}")
    return bare


@lru_cache(maxsize=4_096)  # for each message that is sent
def _bare(rule: _Rule, name: str) -> str | None:
    """The name without blanks around it; None if it breaks the rule."""
    bare = name.strip()
    units = len(bare.encode("utf-16-le", "surrogatepass")) // 2
    return bare if 0 < units <= rule.most and not rule.wrong.search(bare) else None


def near_names(wanted: Iterable[str], there: Collection[str], most: int = 1) -> str:
    """ "did you mean clicks?" for names that are not there: at most `most` of `there` that are spelled alike, for each
    name. "" if there is none."""
    by_lower = {name.lower(): name for name in there}
    near = [by_lower[low] for name in wanted for low in difflib.get_close_matches(name.lower(), by_lower, n=most)]
    return f"did you mean {' or '.join(dict.fromkeys(near))}?" if near else ""


Topics: TypeAlias = Mapping[str, Collection[str]] | Iterable[str]
"""Names, or names with the tags to filter by."""


def read_topics(topics: Topics) -> dict[str, frozenset[str]]:
    """Return the tags by topic. ConfigurationError for what cannot be topics."""
    names = _listed(topics, "topics", '["clicks"]')
    found = checked_filters(topics if isinstance(topics, Mapping) else dict.fromkeys(map(topic_name, names), ()))
    if not found:
        raise ConfigurationError("no topic to read is given")
    return found
