"""A time limit that is no number is an error at once. A wait for NaN would not end."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tubeclient import ClientSettings, ConfigurationError, PartitionKey, Producer, PullConsumer
from tubeclient.aio import AsyncProducer, AsyncPullConsumer

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


@pytest.mark.parametrize("limit", LIMITS, ids=repr)
def test_calls_of_clients_in_tasks(settings: ClientSettings, limit: Any) -> None:
    async def each_call() -> None:
        async with AsyncPullConsumer(settings, "etl", ["single"]) as consumer, AsyncProducer(settings) as producer:
            await producer.publish(["single"])
            for calls, client in ((OF_A_CONSUMER, consumer), (OF_A_PRODUCER, producer)):
                for name, call in calls.items():
                    work: Coroutine[Any, Any, Any] = call(client, limit)
                    with pytest.raises(ConfigurationError, match="must be a number of milliseconds, not "):
                        pytest.fail(f"{name} returned {await asyncio.wait_for(work, 30)}")

    asyncio.run(each_call())


@pytest.mark.parametrize("limit", LIMITS, ids=repr)
@pytest.mark.parametrize("name", ["confirm_timeout_ms", "release_wait_ms", "balance_interval_ms", "topics_interval_ms"])
def test_options_of_a_consumer(settings: ClientSettings, name: str, limit: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} must be a number of milliseconds"):
        PullConsumer(settings, "etl", ["single"], **{name: limit}).start()


@pytest.mark.parametrize("limit", LIMITS, ids=repr)
def test_the_wait_for_a_group(settings: ClientSettings, limit: Any) -> None:
    with pytest.raises(ConfigurationError, match="patience_ms must be a number of milliseconds"):
        PullConsumer(settings, "etl", ["single"]).start(patience_ms=limit)


@pytest.mark.parametrize("limit", [*LIMITS, 0], ids=repr)
def test_settings(limit: Any) -> None:
    for name in ("connect_timeout_ms", "rpc_timeout_ms", "http_timeout_ms", "retry_limit_ms"):
        with pytest.raises(ConfigurationError, match=f"{name} must be "):
            ClientSettings(("127.0.0.1:8715",), **{name: limit})


@pytest.mark.parametrize("given", [1.5, 0, math.nan, True, "9"], ids=repr)
def test_messages_in_flight_are_counted(settings: ClientSettings, given: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_in_flight must be a number of messages"):
        Producer(settings, max_in_flight=given)
