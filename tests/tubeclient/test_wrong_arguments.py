"""Arguments of another kind than a call takes: one error that says what was given and what is wanted."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from tests.tubeclient.stored import bodies
from tubeclient import (
    Admin,
    BrokerInfo,
    ClientBalanceConsumer,
    ClientSettings,
    ConfigurationError,
    GroupMembership,
    OffsetLookup,
    OutgoingMessage,
    PartitionKey,
    Producer,
    PullConsumer,
    RangeReader,
    fetch_view,
)

KEY = PartitionKey(1, "single", 0)
BROKER = BrokerInfo(1, "127.0.0.1", 1)

WITH_SETTINGS: dict[str, Callable[[Any], Any]] = {
    "Producer": Producer,
    "Admin": Admin,
    "ClientBalanceConsumer": lambda settings: ClientBalanceConsumer(settings, "etl", ["single"]),
    "PullConsumer": lambda settings: PullConsumer(settings, "etl", ["single"]),
    "members": lambda settings: PullConsumer(settings, "etl", ["single"], membership="dynamic"),
    "GroupMembership": lambda settings: GroupMembership(settings, "etl", ["single"], 1),
    "OffsetLookup": lambda settings: OffsetLookup(settings, ["etl-r0"]),
    "RangeReader": lambda settings: RangeReader(settings, ("etl-r0",)),
    "fetch_view": lambda settings: fetch_view(settings, ["single"], ["etl-r0"]),
}


@pytest.mark.parametrize("name", WITH_SETTINGS)
def test_an_address_in_place_of_the_settings(name: str) -> None:
    example = r'settings must be a ClientSettings, as ClientSettings\("10.0.0.1:8715"\); not '
    with pytest.raises(ConfigurationError, match=example + "a str") as caught:
        WITH_SETTINGS[name]("alice:secret@10.0.0.1:8715")
    assert "secret" not in str(caught.value)
    with pytest.raises(ConfigurationError, match=example + "None"):
        WITH_SETTINGS[name](None)


MESSAGES: list[list[Any]] = [
    [("single",)],
    [("single", b"x")],
    [("single", b"x", 0, "", "", "")],  # the last one was taken for the answer, and the producer sent nothing more
    [None],
    ["single"],
    [b"x"],
]


@pytest.mark.parametrize("messages", MESSAGES, ids=repr)
def test_messages_that_are_none_are_refused_before_anything_is_sent(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, messages: list[Any]
) -> None:
    good = OutgoingMessage.of("single", b"good")
    with Producer(settings) as producer:
        producer.publish(["single"])
        with pytest.raises(ConfigurationError, match=r"a message must be an OutgoingMessage, as .*\.of\(.*; not "):
            producer.submit_each([good, *messages])
        assert producer.send("single", b"after").offset is not None
    assert bodies(cluster, "single") == {b"after": 1}


LIMITS = [math.nan, "5", True]

OF_A_CONSUMER: dict[str, Callable[[Any, Any], Any]] = {
    "get": lambda consumer, limit: consumer.get(timeout_ms=limit),
    "connect": lambda consumer, limit: consumer.connect(KEY, timeout_ms=limit),
    "disconnect": lambda consumer, limit: consumer.disconnect(KEY, wait_ms=limit),
    "wait_ready": lambda consumer, limit: consumer.wait_ready(limit),
    "wait_confirmed": lambda consumer, limit: consumer.wait_confirmed(limit),
}
OF_A_PRODUCER: dict[str, Callable[[Any, Any], Any]] = {
    "publish": lambda producer, limit: producer.publish(["single"], timeout_ms=limit),
    "send": lambda producer, limit: producer.send("single", b"body", timeout_ms=limit),
    "flush": lambda producer, limit: producer.flush(timeout_ms=limit),
}


@pytest.mark.parametrize("limit", LIMITS, ids=repr)
def test_calls_of_clients(settings: ClientSettings, limit: Any) -> None:
    with PullConsumer(settings, "etl", ["single"]) as consumer, Producer(settings) as producer:
        producer.publish(["single"])
        for calls, client in ((OF_A_CONSUMER, consumer), (OF_A_PRODUCER, producer)):
            for name, call in calls.items():
                with pytest.raises(ConfigurationError, match="must be a number of milliseconds, not "):
                    pytest.fail(f"{name} returned {call(client, limit)}")
        with pytest.raises(ConfigurationError, match="timeout_ms must"):
            producer.submit("single", b"body", timeout_ms=limit)
        with pytest.raises(ConfigurationError, match="wait_ms must"):
            consumer.close(wait_ms=limit)
        with pytest.raises(ConfigurationError, match="timeout_ms must"):
            producer.close(timeout_ms=limit)
        assert not consumer.closed
        assert producer.send("single", b"body").offset is not None


def test_a_consumer_may_wait_for_ever_for_what_comes(settings: ClientSettings) -> None:
    with PullConsumer(settings, "etl", ["single"], start_from="earliest") as consumer, Producer(settings) as producer:
        producer.publish(["single"])
        producer.send("single", b"body")
        assert consumer.wait_ready(math.inf)
        delivery = consumer.get(timeout_ms=math.inf)
        assert delivery is not None
        consumer.confirm_async(delivery)
        assert consumer.wait_confirmed(math.inf)
        assert consumer.disconnect(KEY, wait_ms=math.inf)
        consumer.close(wait_ms=math.inf)
