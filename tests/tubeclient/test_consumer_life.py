"""A consumer's beginning and end, over sockets: nothing hangs, and no thread is left (see the conftest)."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.common.catalogue import TopicConfig
from embedded_tubemq.storage.store import NewMessage
from tests.forking import MULTI_THREADED, in_child
from tests.waiting import wait_for
from tubeclient import (
    ClientBalanceConsumer,
    ClientClosed,
    ClientSettings,
    ConfigurationError,
    ConnectError,
    Credentials,
    NodeIdConflict,
    PartitionKey,
    PullConsumer,
    TopicNotDeployed,
    access,
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
    assert [t.name for t in threading.enumerate() if t.name.startswith("tubeclient-")] == []


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


def test_a_callback_that_fails_does_no_harm(settings: ClientSettings, caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: object) -> None:
        raise ValueError("of the user's own making")

    with consumer_of(settings, on_assigned=fail, on_revoked=fail) as consumer:
        consumer.connect(KEY)
        assert consumer.registered() == [KEY]
    assert caplog.text.count("ValueError: of the user's own making") == 2


def test_of_a_broker_in_trouble_the_log_says_so_once_in_a_while(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, caplog: pytest.LogCaptureFixture
) -> None:
    """Else nothing to read and nobody to read it from would look the same."""
    with consumer_of(settings) as consumer:
        consumer.connect(PartitionKey(1, "single", 0))
        cluster.stop_broker(1)
        assert consumer.get(timeout_ms=3_000) is None
    told = [one.getMessage() for one in caplog.records if "trying again" in one.getMessage()]
    assert len(told) == 1
    assert told[0].startswith(f"partitions at broker 1:{cluster.broker_addresses[1]} wait")


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


def test_an_end_without_the_password_is_one_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "_REUSE_MS", 0)  # each request is signed anew
    secret = tmp_path / "password"
    secret.write_text("open-sesame")
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("single")], users={"alice": "open-sesame"}) as cluster:
        credentials = Credentials("alice", password_file=str(secret))
        consumer = consumer_of(ClientSettings((cluster.master_address,), credentials=credentials)).start()
        consumer.connect(KEY)
        secret.unlink()
        consumer.close()
        assert consumer.closed


@pytest.mark.filterwarnings(MULTI_THREADED)
@pytest.mark.parametrize("kind", [ClientBalanceConsumer, PullConsumer])
def test_a_forked_child_may_not_use_it_and_does_not_harm_it(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, kind: type[ClientBalanceConsumer]
) -> None:
    cluster.load("single", [NewMessage(0, b"%d" % number) for number in range(10)])
    with kind(settings, "forked", ["single"], source_count=1, node_id=0, start_from="earliest") as consumer:
        if kind is ClientBalanceConsumer:
            consumer.connect(KEY)
        assert consumer.wait_ready(10_000)
        wait_for(lambda: KEY in consumer.registered(), "the partition")

        def child() -> None:
            for call in CALLS.values():
                with pytest.raises(ClientClosed, match="forked child"):
                    call(consumer)
            with pytest.raises(ClientClosed, match="forked child"):
                consumer.start()
            consumer.close()
            with kind(settings, "of_the_child", ["single"], source_count=1, node_id=0, start_from="earliest") as own:
                if kind is ClientBalanceConsumer:
                    own.connect(KEY)
                delivery = own.get(timeout_ms=10_000)
                assert delivery is not None
                assert len(delivery) == 10

        in_child(child)
        delivery = consumer.get(timeout_ms=10_000)
        assert delivery is not None
        assert consumer.confirm(delivery) == 280
