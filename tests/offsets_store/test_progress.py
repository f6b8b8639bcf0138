"""Groups and progress as values."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from offsets_store import GroupKey, GroupProgress, PartitionProgress
from tubeclient.keys import PartitionKey


def test_order_of_topics_does_not_matter() -> None:
    """Equal sets of topics are the same key in any order."""
    assert GroupKey("g", ["b", "a", "b"]) == GroupKey("g", ("a", "b"))
    assert GroupKey("g", ["b", "a"]).topic_set == "a,b"


def test_a_pattern_is_one_key_whatever_it_matches() -> None:
    key = GroupKey("g", pattern="a|b,c")
    assert (key.topics, key.topic_set) == ((), "pattern:a|b,c")
    assert key == GroupKey("g", pattern="a|b,c") != GroupKey("g", ["a"])
    assert [topic for topic in ("a", "ab", "b,c") if key.covers(topic)] == ["a", "b,c"]
    assert str(key) == "group 'g' on pattern:a|b,c"


@pytest.mark.parametrize(
    ("group", "topics", "pattern"),
    [
        ("", ["a"], None),
        ("g", [], None),
        ("g", [""], None),
        ("g", ["a,b"], None),
        ("g", ["pattern:a"], None),
        ("g", ["a"], "a"),
    ],
)
def test_ambiguous_keys(group: str, topics: list[str], pattern: str | None) -> None:
    """`GroupKey` refuses values that could be mistaken for another key."""
    with pytest.raises(ValueError):
        GroupKey(group, topics, pattern=pattern)


def test_rows_behind_counts_a_store_once() -> None:
    """Two partitions of one store share its index entries: adding both lags would count the same rows twice."""

    def behind(*rows: PartitionProgress) -> int | None:
        return GroupProgress(GroupKey("g", ["a"]), rows, 1, 1, 1, datetime.now(UTC), "1").rows_behind

    store_0 = [PartitionProgress(PartitionKey(1, "a", 0), 0, 280), PartitionProgress(PartitionKey(1, "a", 1), 140, 280)]
    store_1 = PartitionProgress(PartitionKey(1, "a", 10_000), 0, 28)
    assert behind(*store_0, store_1) == 10 + 1
    assert behind(*store_0, PartitionProgress(PartitionKey(1, "a", 10_000), 0)) is None


def test_lag_at_or_past_the_end() -> None:
    """A partition at its end or past it has a lag of 0."""
    one = PartitionKey(1, "t", 0)
    behind = [PartitionProgress(one, at, end).lag for at, end in ((28, 84), (84, 84), (112, 84), (0, None))]
    assert behind == [2, 0, 0, None]
