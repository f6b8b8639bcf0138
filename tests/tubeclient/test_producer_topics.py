"""A producer's topics: what the master says of them, forgets of them, and what is refused before it is sent."""

from __future__ import annotations

from dataclasses import replace
from time import monotonic
from typing import Any

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.common.catalogue import TopicConfig
from tests.waiting import wait_for
from tubeclient import (
    AuthenticationFailed,
    ClientSettings,
    NotAvailable,
    PartitionUnavailable,
    Producer,
    TopicNotDeployed,
)
from tubeclient.wire.methods import Method


@pytest.fixture
def quick_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats twenty times a second instead of every 13 s."""
    monkeypatch.setattr("tubeclient.producing.publishing.HEARTBEAT_INTERVAL_MS", 50)


def test_a_topic_that_went_is_an_error_and_one_that_came_back_is_written(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, quick_beats: None
) -> None:
    with Producer(settings) as producer:
        producer.publish(["single"])
        cluster.delete_topic("single")
        wait_for(lambda: not producer.is_writable("single"), "the heartbeat to tell that the topic is gone")
        future = producer.submit("single", b"x")
        cluster.create_topic(TopicConfig("single"))
        assert future.result(30).partition.topic == "single"


def test_a_master_that_has_forgotten_the_producer_learns_of_it_again(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, quick_beats: None
) -> None:
    with Producer(settings) as producer:
        producer.publish(["clicks"])
        cluster.restart_master()
        cluster.grow_topic("clicks", stores=3)
        wait_for(
            lambda: producer.send("clicks", b"x").partition.partition_id >= 20_000,
            "a message in the store that only a heartbeat after the restart can have told of",
        )


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


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long a publishing producer waits in all, in seconds, each time that it begins to; in truth not at all."""
    seconds: list[float] = []

    def wait(self: Producer, starts: object, deadline: float) -> Any:
        seconds.append(deadline - monotonic())
        return real(self, starts, 0.0)

    real: Any = Producer._wait_writable
    monkeypatch.setattr(Producer, "_wait_writable", wait)
    return seconds


def test_a_topic_that_the_cluster_does_not_have_is_not_waited_for(settings: ClientSettings, waits: list[float]) -> None:
    with Producer(settings) as producer, pytest.raises(TopicNotDeployed):
        producer.publish(["nosuch"], timeout_ms=600_000)
    [first] = waits
    assert first <= 1


@pytest.mark.parametrize("web", [True, False])
def test_any_other_topic_that_takes_no_messages_is(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, waits: list[float], web: bool
) -> None:
    """Whether there is such a topic, nobody knows without a web port."""
    cluster.create_topic(TopicConfig("closed", accept_publish=False))
    topic, said = (
        ("closed", r"the topic takes no messages now\.")
        if web
        else ("nosuch", r"does not exist; check its spelling, and master_web_port: web port 1, .* does not answer\.")
    )
    asked = settings if web else replace(settings, master_web_port=1)
    with (
        Producer(asked) as producer,
        pytest.raises(PartitionUnavailable, match=rf"publishing to {topic}: .*{said}") as caught,
    ):
        producer.publish([topic], timeout_ms=600_000)
    assert isinstance(caught.value, NotAvailable)
    assert (caught.value.topic, caught.value.code) == (topic, 423)
    first, rest = waits
    assert first <= 1
    assert rest > 500


def test_a_refusal_of_the_master_is_raised_at_once(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    with Producer(settings) as producer:
        cluster.master_faults.force(Method.PRODUCER_REGISTER, 415)
        with pytest.raises(AuthenticationFailed):
            producer.publish(["clicks"])
        producer.publish(["clicks"])  # may be tried again
        assert producer.send("clicks", b"x")
