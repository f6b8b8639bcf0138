"""A consumer's beginning and end, over sockets: nothing hangs, and no thread is left (see the conftest)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.waiting import wait_for
from tubeclient import (
    ClientBalanceConsumer,
    ClientClosed,
    ClientSettings,
    ConfigurationError,
    ConnectError,
    NodeIdConflict,
    PartitionKey,
    TopicNotDeployed,
)

KEY = PartitionKey(1, "single", 0)


def consumer_of(settings: ClientSettings, **options: Any) -> ClientBalanceConsumer:
    return ClientBalanceConsumer(settings, "life", ["single"], **{"start_from": "earliest", **options})


CALLS: dict[str, Callable[[ClientBalanceConsumer], Any]] = {
    "partitions": lambda consumer: consumer.partitions(),
    "connect": lambda consumer: consumer.connect(KEY),
    "disconnect": lambda consumer: consumer.disconnect(KEY),
    "registered": lambda consumer: consumer.registered(),
    "positions": lambda consumer: consumer.positions(),
    "wait_ready": lambda consumer: consumer.wait_ready(1),
    "get": lambda consumer: consumer.get(timeout_ms=1),
    "consumer_id": lambda consumer: consumer.consumer_id,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_calls_before_start_and_after_close(
    settings: ClientSettings, call: Callable[[ClientBalanceConsumer], Any]
) -> None:
    """Each call raises an error before start and after close."""
    consumer = consumer_of(settings)
    with pytest.raises(ConfigurationError, match=r"not started; call start\(\)"):
        call(consumer)
    with consumer:
        consumer.connect(KEY)
        call(consumer)
    assert consumer.closed
    with pytest.raises(ClientClosed):
        call(consumer)
    with pytest.raises(ClientClosed):
        consumer.start()
    consumer.close()
    assert "closed" in repr(consumer)


def test_a_start_that_is_refused_leaves_nothing(settings: ClientSettings) -> None:
    with consumer_of(settings, source_count=2, node_id=1):
        for options, error in (
            ({"source_count": 2, "node_id": 1}, NodeIdConflict),
            ({"source_count": 3, "node_id": 3}, ConfigurationError),
            ({"source_count": 0}, ConfigurationError),
        ):
            with pytest.raises(error):
                consumer_of(settings, **options).start()
    with pytest.raises(TopicNotDeployed, match="nowhere"):
        ClientBalanceConsumer(settings, "life", ["nowhere"]).start()
    with pytest.raises(ConnectError, match=r"127\.0\.0\.1:1 "):
        consumer_of(replace(settings, master_servers=("127.0.0.1:1",))).start()
    wait_for(lambda: not any(t.name.startswith("tubeclient-") for t in threading.enumerate()), "threads to end")


def test_closing_ends_the_calls_of_other_threads(settings: ClientSettings) -> None:
    consumer = consumer_of(settings).start()
    consumer.connect(KEY)
    ended: list[str] = []

    def note(name: str, call: Callable[[], Any]) -> None:
        try:
            call()
            ended.append(name)
        except ClientClosed:
            ended.append(f"{name} ClientClosed")

    threads = [
        threading.Thread(target=note, args=("get", lambda: consumer.get(timeout_ms=60_000))),
        threading.Thread(target=note, args=("loop", lambda: list(consumer))),
    ]
    for thread in threads:
        thread.start()
    consumer.close()
    for thread in threads:
        thread.join(20)
    assert sorted(ended) == ["get ClientClosed", "loop"]
