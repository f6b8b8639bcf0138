"""Filters: only messages with the wanted tags, although brokers compare a 32-bit hash of them."""

from __future__ import annotations

from tests.conformance.cluster import Cluster
from tests.conformance.conftest import MakeConsumer
from tests.conformance.consuming import drain, partition_of, take
from tubeclient.wire.payload import java_string_hash

KEY = partition_of("tags")


def test_only_wanted_tags_are_delivered(tube: Cluster, consumer_of: MakeConsumer) -> None:
    first = tube.put(KEY, [b"wanted 0"], tag="wanted")[0]
    for number in range(1, 10):
        tag = ("wanted", "needed", "other", "")[number % 4]
        tube.put(KEY, [b"%s %d" % (tag.encode(), number)], tag=tag)
    consumer = consumer_of("tags_some", {"tags": ["wanted", "needed"]})
    consumer.connect(KEY, first)
    got = [body for _, body in drain(consumer, 6)]
    assert got == [b"wanted 0", b"needed 1", b"wanted 4", b"needed 5", b"wanted 8", b"needed 9"]
    assert consumer.get(timeout_ms=300) is None


def test_tags_may_hold_what_separates_nothing_where_they_stand(tube: Cluster, consumer_of: MakeConsumer) -> None:
    tags = ["two words", "x:y", "@me", "a.b-c_d", "中文", "t" * 256]
    [start] = tube.put(KEY, [b"another's"], tag="two")
    for tag in tags:
        tube.put(KEY, [tag.encode()], tag=tag)
    consumer = consumer_of("tags_odd", {"tags": tags})
    consumer.connect(KEY, start)
    assert [body.decode() for _, body in drain(consumer, len(tags))] == tags
    assert consumer.get(timeout_ms=300) is None


def test_a_tag_with_the_same_hash_is_not_delivered(tube: Cluster, consumer_of: MakeConsumer) -> None:
    assert java_string_hash("Aa") == java_string_hash("BB")
    [start] = tube.put(KEY, [b"another's"], tag="BB")
    tube.put(KEY, [b"ours"], tag="Aa")
    tube.put(KEY, [b"another's"], tag="BB")
    consumer = consumer_of("tags_hash", {"tags": ["Aa"]})
    consumer.connect(KEY, start)
    assert [body for _, body in drain(consumer, 1)] == [b"ours"]
    assert consumer.get(timeout_ms=300) is None


def test_passed_over_messages_are_not_seen_again(tube: Cluster, consumer_of: MakeConsumer) -> None:
    """Neither those of other tags nor those that only share a hash hold the group's position up."""
    [start] = tube.put(KEY, [b"another's"], tag="BB")
    tube.put(KEY, [b"others"] * 3, tag="other")
    first = consumer_of("tags_over", {"tags": ["Aa"]})
    first.connect(KEY, start)
    assert first.get(timeout_ms=500) is None
    [mark] = tube.put(KEY, [b"mark"], tag="Aa")
    pack = take(first)
    assert (pack.start, pack.bodies) == (mark, [b"mark"])
    assert first.confirm(pack) == mark + 28
