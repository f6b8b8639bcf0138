"""A consumer's beginning and end, over sockets: nothing hangs, and no thread is left (see the conftest)."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.storage.store import NewMessage
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
def test_before_the_start_and_after_the_end_each_call_says_so(
    settings: ClientSettings, call: Callable[[ClientBalanceConsumer], Any]
) -> None:
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


def test_an_end_while_the_topics_of_a_pattern_are_asked_for_joins_no_group(
    settings: ClientSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, go_on = threading.Event(), threading.Event()
    consumer = ClientBalanceConsumer(settings, "life", re.compile("single"), source_count=1, node_id=0)
    failures: list[ClientClosed] = []

    def names(_: object) -> list[str]:
        asked.set()
        assert go_on.wait(20)
        return ["single"]

    def start() -> None:
        try:
            consumer.start(patience_ms=60_000)
        except ClientClosed as error:
            failures.append(error)

    monkeypatch.setattr(consumer, "_names_now", names)
    with ClientBalanceConsumer(settings, "life", ["single"], source_count=1, node_id=0):  # it has the node
        starting, ending = threading.Thread(target=start), threading.Thread(target=consumer.close)
        starting.start()
        assert asked.wait(20)
        ending.start()
        wait_for(lambda: consumer._life._ending, "the end to begin")
        go_on.set()
        for thread in (starting, ending):
            thread.join(20)
            assert not thread.is_alive()
    assert len(failures) == 1
    assert consumer.closed


@pytest.mark.parametrize("event", ["on_assigned", "on_revoked"])
def test_closing_from_a_callback(settings: ClientSettings, event: str) -> None:
    consumer: ClientBalanceConsumer

    def close(*_: object) -> None:
        consumer.close()

    consumer = consumer_of(settings, **{event: close}).start()
    consumer.connect(KEY)
    consumer.disconnect(KEY) if event == "on_revoked" else None
    assert consumer.closed
    with consumer_of(settings) as other:
        other.connect(KEY)  # at once


def test_the_wait_at_the_end_is_one_for_all_partitions(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    for broker_id in (1, 2):
        cluster.load("clicks", [NewMessage(0, b"out"), NewMessage(10_000, b"out")], broker_id=broker_id)
    waited: list[float] = []
    consumer = ClientBalanceConsumer(settings, "life", ["clicks"], start_from="earliest").start()
    keys = [key for key in consumer.partitions() if key.partition_id % 10_000 == 0]
    for key in keys:
        consumer.connect(key)
    packs = [consumer.get(timeout_ms=5_000) for _ in keys]
    assert all(packs)
    registrations = consumer._live().registrations
    disconnect = registrations.disconnect

    def noting(key: PartitionKey, *, wait_ms: float, at_once: bool = False) -> Any:
        waited.append(wait_ms)
        return disconnect(key, wait_ms=wait_ms, at_once=at_once)

    registrations.disconnect = noting  # type: ignore[method-assign]
    consumer.close(wait_ms=600)
    assert waited[0] > 0
    assert waited[-1] == 0
