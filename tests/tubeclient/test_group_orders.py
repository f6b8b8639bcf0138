"""What the master tells a group's clients: to go on with the latest messages, and how fast to read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from embedded_tubemq.broker.broker import Broker
from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.storage.store import NewMessage
from tests.waiting import wait_for
from tubeclient import ClientSettings, Delivery, PartitionKey, PullConsumer, StalePack
from tubeclient.net.http import query_master

FIRST, SECOND = PartitionKey(1, "single", 0), PartitionKey(2, "single", 0)
MESSAGES = 20
LONG_MS = 3_600_000

Start = Callable[..., PullConsumer]
Change = Callable[..., None]


@pytest.fixture
def start(settings: ClientSettings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """`start()`: a running consumer of group etl that reads topic single; closed after the test."""
    monkeypatch.setattr("tubeclient.flows.hold_group.HEARTBEAT_INTERVAL_MS", 100)
    with ExitStack() as stack:

        def make(**options: Any) -> PullConsumer:
            consumer = stack.enter_context(
                PullConsumer(settings, "etl", ["single"], start_from="earliest", **{"prefetch": 0, **options})
            )
            wait_for(lambda: consumer.registered() == [FIRST, SECOND], "both partitions")
            return consumer

        yield make


@pytest.fixture
def change(cluster: EmbeddedTubeMQ) -> Change:
    """`change("admin_...", groupName="etl")`: change something at the master."""

    def carry_out(method: str, **parameters: str) -> None:
        who = {"createUser": "me", "modifyUser": "me", "confModAuthToken": "embedded"}
        query_master(f"127.0.0.1:{cluster.master_web_port}", method, 2_000, **who, **parameters)

    return carry_out


@pytest.fixture
def fetches(cluster: EmbeddedTubeMQ) -> Callable[[], int]:
    """How many fetches the brokers have answered since the test began."""
    count: list[int] = []

    def listen(broker: Broker) -> None:
        fetch = broker._fetch

        def counted(*arguments: Any) -> Any:
            count.append(1)
            return fetch(*arguments)

        broker._fetch = counted  # type: ignore

    for broker_id in cluster.broker_ids:
        cluster.inspect(listen, broker_id=broker_id)
    return lambda: len(count)


def load(cluster: EmbeddedTubeMQ, count: int = MESSAGES) -> None:
    for broker_id in (1, 2):
        cluster.load("single", [NewMessage(0, b"%d" % number) for number in range(count)], broker_id=broker_id)


def take(consumer: PullConsumer) -> Delivery:
    delivery = consumer.get(timeout_ms=30_000)
    assert delivery is not None
    return delivery


def confirmed(consumer: PullConsumer) -> dict[PartitionKey, int]:
    return {key: position.confirmed for key, position in consumer.positions().items()}


# To the end


def test_an_order_sends_a_group_to_the_end_within_a_heartbeat(
    cluster: EmbeddedTubeMQ, start: Start, change: Change
) -> None:
    load(cluster)
    consumer = start()
    out = take(consumer)
    change("admin_set_client_balance_group_consume_from_max", groupName="etl")
    wait_for(lambda: set(confirmed(consumer).values()) == {MESSAGES * 28}, "both partitions to be at the end")
    with pytest.raises(StalePack):
        consumer.confirm(out)
    assert consumer.get(timeout_ms=300) is None
    load(cluster, 1)
    assert sorted([take(consumer).partition, take(consumer).partition]) == [FIRST, SECOND]


# How fast
LONG_AFTER_MESSAGES = json.dumps([{"type": 3, "rule": [{"normFreqInMs": 300_000}]}])


def set_group_rule(change: Change, text: str) -> None:
    change("admin_set_group_flow_control_rule", groupName="etl", flowCtrlInfo=text, statusId="1")


def test_a_rule_for_readers_that_get_messages_holds_their_next_fetch_back(
    cluster: EmbeddedTubeMQ, start: Start, change: Change, fetches: Callable[[], int]
) -> None:
    set_group_rule(change, LONG_AFTER_MESSAGES)
    load(cluster)
    consumer = start()
    for _ in range(2):
        consumer.confirm(take(consumer))
    load(cluster)
    assert consumer.get(timeout_ms=1_000) is None
    assert fetches() == 2
