"""A producer's topics: what the master says of them, forgets of them, and what is refused before it is sent."""

from __future__ import annotations

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.common.catalogue import TopicConfig
from tests.waiting import wait_for
from tubeclient import (
    AuthenticationFailed,
    ClientSettings,
    Producer,
    TopicNotDeployed,
)
from tubeclient.wire.methods import Method


@pytest.fixture
def quick_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats twenty times a second instead of every 13 s."""
    monkeypatch.setattr("tubeclient.producing.producer.HEARTBEAT_INTERVAL_MS", 50)


def test_a_topic_that_went_is_an_error_and_one_that_came_back_is_written(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, quick_beats: None
) -> None:
    with Producer(settings) as producer:
        producer.publish(["single"])
        cluster.delete_topic("single")
        wait_for(lambda: not producer._routes.partitions("single"), "the heartbeat to tell that the topic is gone")
        future = producer.submit("single", b"x")
        cluster.create_topic(TopicConfig("single"))
        assert future.result(30).partition.topic == "single"


def test_an_unknown_topic_leaves_the_others_as_they_were(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    with Producer(settings) as producer:
        producer.publish(["clicks"])
        with pytest.raises(TopicNotDeployed, match="publishing to nosuch: the cluster has no topic nosuch") as caught:
            producer.publish(["nosuch", "clicks", "single"], timeout_ms=300)
        assert (caught.value.topic, caught.value.code) == ("nosuch", 431)
        assert str(caught.value).endswith(
            "nosuch. Check the topic's spelling, or create and deploy it on the cluster first"
        )
        assert producer.topics == ["clicks", "single"]
        assert producer.send("clicks", b"x")


def test_a_refusal_of_the_master_is_raised_at_once(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    with Producer(settings) as producer:
        cluster.master_faults.force(Method.PRODUCER_REGISTER, 415)
        with pytest.raises(AuthenticationFailed):
            producer.publish(["clicks"])
        producer.publish(["clicks"])  # may be tried again
        assert producer.send("clicks", b"x")
