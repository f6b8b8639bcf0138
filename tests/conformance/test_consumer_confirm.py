"""Packs that are given back, forgotten or confirmed too late come again, and none counts twice."""

from __future__ import annotations

import pytest

from tests.conformance.cluster import Cluster
from tests.conformance.conftest import MakeConsumer
from tests.conformance.consuming import drain, partition_of, take
from tubeclient import Delivery, StalePack

KEY, OTHER = partition_of("confirms"), partition_of("confirms", 2)


def test_a_pack_that_was_not_consumed_comes_again(tube: Cluster, consumer_of: MakeConsumer) -> None:
    offsets = tube.put(KEY, [b"again %d" % number for number in range(3)])
    consumer = consumer_of("confirm_again", ["confirms"])
    consumer.connect(KEY, offsets[0])
    first = take(consumer)
    assert consumer.confirm(first, consumed=False) == offsets[0]
    second = take(consumer)
    assert (second.start, second.message_ids, second.bodies) == (first.start, first.message_ids, first.bodies)
    assert consumer.confirm(second) == offsets[2] + 28


def test_a_pack_that_nobody_confirms_comes_again_and_others_go_on(tube: Cluster, consumer_of: MakeConsumer) -> None:
    [offset] = tube.put(KEY, [b"forgotten"])
    [beside] = tube.put(OTHER, [b"beside"])
    consumer = consumer_of("confirm_late", ["confirms"], confirm_timeout_ms=3_000)
    consumer.connect(KEY, offset)
    forgotten = take(consumer)
    consumer.connect(OTHER, beside)
    assert drain(consumer, 1) == [(OTHER, b"beside")]  # while the other one is out
    again = take(consumer)
    assert (again.partition, again.start, again.bodies) == (KEY, offset, [b"forgotten"])
    with pytest.raises(StalePack, match=str(KEY)):
        consumer.confirm(forgotten)
    assert consumer.confirm(again) == offset + 28
    assert consumer.get(timeout_ms=300) is None


def test_a_partition_gives_one_pack_at_a_time(tube: Cluster, consumer_of: MakeConsumer) -> None:
    offsets = tube.put(KEY, [bytes(300_000)] * 3)  # two packs
    consumer = consumer_of("confirm_turns", ["confirms"])
    consumer.connect(KEY, offsets[0])
    first = take(consumer)
    assert consumer.get(timeout_ms=300) is None
    consumer.confirm(first)
    assert take(consumer).start == offsets[2]


def test_a_given_back_partitions_pack_is_stale_and_comes_to_the_next(tube: Cluster, consumer_of: MakeConsumer) -> None:
    [offset] = tube.put(KEY, [b"passed on"])
    first = consumer_of("confirm_passed", ["confirms"])
    first.connect(KEY, offset)
    out: Delivery = take(first)
    first.disconnect(KEY, wait_ms=0)
    with pytest.raises(StalePack):
        first.confirm(out)
    second = consumer_of("confirm_passed", ["confirms"])
    assert second.connect(KEY) == offset
    assert take(second).bodies == [b"passed on"]
