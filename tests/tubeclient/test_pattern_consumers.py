"""Consumers of a topic pattern over real sockets: topics that come and go while they run, alone and in a group."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.common.catalogue import TopicConfig
from embedded_tubemq.storage.store import NewMessage
from tests.tubeclient.reading import Reader, counted
from tests.waiting import wait_for
from tubeclient import Admin, ClientBalanceConsumer, ClientSettings, PartitionKey, PullConsumer

Start = Callable[..., PullConsumer]
OFTEN: dict[str, Any] = {"balance_interval_ms": 60_000, "metadata_interval_ms": 200}


@pytest.fixture
def start(settings: ClientSettings) -> Iterator[Start]:
    """`start("clicks.*")`: a running consumer of group etl, closed after the test."""
    with ExitStack() as stack:

        def make(pattern: str, **options: Any) -> PullConsumer:
            consumer = PullConsumer(settings, "etl", subscribe_pattern=pattern, **{**OFTEN, **options})
            return stack.enter_context(consumer)

        yield make


def topics_of(*consumers: PullConsumer) -> set[str]:
    return {key.topic for consumer in consumers for key in consumer.registered()}


def test_topics_come_and_go(cluster: EmbeddedTubeMQ, start: Start) -> None:
    """New topics are read from their first message, and deleted topics leave."""
    consumer = start("clicks|new_.")  # start_from is latest, and holds for what was there
    wait_for(lambda: topics_of(consumer) == {"clicks"}, "the topic that is there")
    assert consumer.topics == {"clicks": frozenset()}
    for other in ("anew_1", "new_12"):  # the whole name must match
        cluster.create_topic(TopicConfig(other))
    cluster.create_topic(TopicConfig("new_1"))
    cluster.load("new_1", [NewMessage(0, b"first")], broker_id=2)
    wait_for(lambda: topics_of(consumer) == {"clicks", "new_1"}, "the new topic")
    delivery = consumer.get(timeout_ms=30_000)
    assert delivery is not None
    assert delivery.bodies == [b"first"]
    consumer.confirm(delivery)
    cluster.delete_topic("new_1")
    wait_for(lambda: topics_of(consumer) == {"clicks"}, "the topic to leave")
    wait_for(lambda: set(consumer.topics) == {"clicks"}, "two looks to lack it")


def test_pattern_without_match(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """A consumer waits for a topic if its pattern matches nothing."""
    consumer = start("later_.")
    assert consumer.get(timeout_ms=0) is None
    assert (consumer.partitions(refresh=True), consumer.topics) == ({}, {})
    assert "no topic matches subscribe_pattern; waiting for one" in caplog.text
    assert Admin(settings).group("etl").members == ()
    for name in ("later_1", "later_2"):  # the second time with the same client again
        cluster.create_topic(TopicConfig(name))
        cluster.load(name, [NewMessage(0, b"one")])
        wait_for(lambda: len(consumer.registered()) == 2, "its partitions")
        [member] = Admin(settings).group("etl").members
        assert member.client_id == consumer.consumer_id
        delivery = consumer.get(timeout_ms=30_000)
        assert delivery is not None
        assert delivery.bodies == [b"one"]
        consumer.confirm(delivery)
        cluster.delete_topic(name)
        wait_for(lambda: consumer.partitions() == {} and not consumer.registered(), "it to leave")
        wait_for(lambda: not Admin(settings).group("etl").members, "the group to end")


@pytest.mark.parametrize("membership", ["fixed", "dynamic"])
def test_all_members_follow_pattern(
    cluster: EmbeddedTubeMQ, start: Start, monkeypatch: pytest.MonkeyPatch, membership: str
) -> None:
    """All members of a group change to the new topics, and none reads a message twice."""
    monkeypatch.setattr("tubeclient.flows.hold_group.HEARTBEAT_INTERVAL_MS", 500)
    places: list[dict[str, Any]] = [{"source_count": 3, "node_id": node} for node in range(3)]
    if membership == "dynamic":
        places = [{"membership": "dynamic"}] * 3
    # They look at different times: until the last one has looked, the master refuses those that changed over.
    members = [
        start(".*", start_from="earliest", **place, metadata_interval_ms=ms)
        for place, ms in zip(places, (200, 700, 1_500), strict=True)
    ]
    wait_for(lambda: sum(len(one.registered()) for one in members) == 10, "all partitions to have a reader")
    with ExitStack() as reading:
        readers = [reading.enter_context(Reader(member)) for member in members]
        for name in ("new_1", "new_2"):
            cluster.create_topic(TopicConfig(name, stores=2))
            for broker_id in (1, 2):
                bodies = [b"%s-%d-%d" % (name.encode(), broker_id, number) for number in range(20)]
                cluster.load(name, [NewMessage(0, body) for body in bodies], broker_id=broker_id)
        wait_for(lambda: topics_of(*members) >= {"new_1", "new_2"}, "the new topics to have readers")
        wait_for(lambda: counted(readers).total() >= 80, "all messages to be read")
        wait_for(lambda: sum(len(one.registered()) for one in members) == 18, "each partition to have one reader")
    assert set(counted(readers).values()) == {1}


def test_partitions_one_by_one_follow_the_pattern_too(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    with ClientBalanceConsumer(settings, "etl", subscribe_pattern="s.*", metadata_interval_ms=100) as consumer:
        assert list(consumer.partitions()) == [PartitionKey(1, "single", 0), PartitionKey(2, "single", 0)]
        cluster.create_topic(TopicConfig("second"))
        cluster.load("second", [NewMessage(0, b"one")])
        new = PartitionKey(1, "second", 0)
        wait_for(lambda: new in consumer.partitions(), "the new topic")
        assert consumer.connect(new) == 0
