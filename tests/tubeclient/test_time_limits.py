"""A time limit that is no number is an error at once. A wait for NaN would not end."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from tubeclient import ClientSettings, ConfigurationError, PartitionKey, Producer, PullConsumer

KEY = PartitionKey(1, "single", 0)
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
