"""Consumers whose partitions are assigned: groups of them, where they begin, what they say and what ends them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.storage.store import NewMessage
from tests.waiting import wait_for
from tubeclient import (
    BootstrapOffset,
    ClientBalanceConsumer,
    ClientSettings,
    DataLoss,
    Delivery,
    NodeIdConflict,
    PartitionKey,
    PullConsumer,
)
from tubeclient.net.http import query_master

FIRST, SECOND = PartitionKey(1, "single", 0), PartitionKey(2, "single", 0)
MESSAGES = 20

Start = Callable[..., PullConsumer]


@pytest.fixture
def start(settings: ClientSettings) -> Iterator[Start]:
    """`start(node, count)`: a running consumer of group etl, closed after the test."""
    with ExitStack() as stack:

        def make(node_id: int = 0, count: int = 1, topic: str = "clicks", **options: object) -> PullConsumer:
            options = {"start_from": "earliest", "balance_interval_ms": 60_000, "metadata_interval_ms": 200} | options
            consumer = PullConsumer(settings, "etl", [topic], source_count=count, node_id=node_id, **options)  # type: ignore[arg-type]
            return stack.enter_context(consumer)

        yield make


@pytest.fixture
def messages(cluster: EmbeddedTubeMQ) -> None:
    """b"0", b"1", ... in both partitions of topic single."""
    for broker_id in (1, 2):
        cluster.load("single", [NewMessage(0, b"%d" % number) for number in range(MESSAGES)], broker_id=broker_id)


def has_all(consumer: PullConsumer, partitions: int = 8) -> bool:
    keys = list(consumer.partitions())
    return len(keys) == partitions and consumer.registered() == keys[consumer.node_id :: consumer.source_count]


def take(consumer: PullConsumer) -> Delivery:
    delivery = consumer.get(timeout_ms=30_000)
    assert delivery is not None
    return delivery


# Groups


# Where it begins


def test_start_offsets_hold_for_the_first_time(cluster: EmbeddedTubeMQ, start: Start, messages: None) -> None:
    revoked: list[PartitionKey] = []
    consumer = start(
        topic="single",
        start_offsets={FIRST: 5 * 28, SECOND: BootstrapOffset.LATEST},
        on_revoked=revoked.append,
        prefetch=0,
        release_wait_ms=100,
    )
    delivery = take(consumer)
    assert (delivery.partition, delivery.start, delivery.bodies[0]) == (FIRST, 5 * 28, b"5")
    consumer.confirm(delivery)
    wait_for(lambda: len(consumer.registered()) == 2, "both partitions")
    cluster.load("single", [NewMessage(0, b"new")], broker_id=2)
    assert take(consumer).bodies == [b"new"]
    set_open(cluster, False)
    wait_for(lambda: len(revoked) == 2, "both to be given back")
    set_open(cluster, True)
    wait_for(lambda: len(consumer.registered()) == 2, "both to be had again")
    again = take(consumer)
    assert (again.partition, again.bodies) == (SECOND, [b"new"])  # and FIRST is not read from 5 on again


def set_open(cluster: EmbeddedTubeMQ, is_open: bool) -> None:
    """Whether topic single takes readers."""
    token = {"modifyUser": "me", "confModAuthToken": "embedded"}
    address = f"127.0.0.1:{cluster.master_web_port}"
    query_master(
        address, "admin_modify_topic_info", 2_000, topicName="single", acceptSubscribe=str(is_open).lower(), **token
    )


def test_a_start_offset_that_is_not_held_is_raised_by_get(cluster: EmbeddedTubeMQ, start: Start) -> None:
    consumer = start(topic="single", start_offsets={SECOND: 28_000})
    with pytest.raises(DataLoss, match="2:single:0 cannot be read from 28000 on"):
        take(consumer)
    with pytest.raises(DataLoss):
        consumer.get(timeout_ms=0)


# What it says


def test_what_is_confirmed_as_a_partition_goes_counts(cluster: EmbeddedTubeMQ, start: Start, messages: None) -> None:
    assigned: list[tuple[PartitionKey, int]] = []
    out: dict[PartitionKey, Delivery] = {}
    confirmed: dict[PartitionKey, int] = {}

    def commit(partition: PartitionKey) -> None:
        confirmed[partition] = consumer.confirm(out.pop(partition))

    consumer = start(topic="single", on_assigned=lambda key, offset: assigned.append((key, offset)), on_revoked=commit)
    for _ in range(2):
        delivery = take(consumer)
        out[delivery.partition] = delivery
    set_open(cluster, False)
    wait_for(lambda: len(confirmed) == 2 and consumer.registered() == [], "both to be given back")
    assert confirmed == {FIRST: MESSAGES * 28, SECOND: MESSAGES * 28}
    set_open(cluster, True)
    wait_for(lambda: len(assigned) == 4, "both to be had again")
    assert dict(assigned[:2]) == {FIRST: 0, SECOND: 0}
    assert dict(assigned[2:]) == confirmed


# What ends it


def test_a_node_that_somebody_else_took_ends_it(
    cluster: EmbeddedTubeMQ, start: Start, settings: ClientSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = start()
    wait_for(lambda: has_all(first), "all partitions")
    cluster.restart_master()  # it has forgotten the first one, whose next heartbeat is seconds away
    with ClientBalanceConsumer(settings, "etl", ["clicks"], source_count=1, node_id=0):
        first.disconnect(first.registered()[0])  # is told at once
        with pytest.raises(NodeIdConflict, match="etl node 0 of 1"):
            take(first)
