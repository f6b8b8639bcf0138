"""Consumers whose partitions are assigned: where they begin, what they say, what they follow and what ends them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from embedded_tubemq.broker.offsets import Cursor
from embedded_tubemq.broker.offsets import Reader as RivalReader
from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.storage.store import NewMessage
from tests.tubeclient.reading import Reader, Writer, counted
from tests.waiting import wait_for
from tubeclient import (
    Admin,
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
            options = {"start_from": "earliest", "balance_interval_ms": 60_000, "metadata_interval_ms": 100} | options
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


def test_unavailable_start_offset(cluster: EmbeddedTubeMQ, start: Start) -> None:
    """A start offset that is not in the store makes get raise DataLoss."""
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


# What it follows


class Moves:
    """What consumers say of their partitions."""

    def __init__(self) -> None:
        self.assigned: list[PartitionKey] = []
        self.revoked: list[PartitionKey] = []
        self.callbacks: dict[str, Any] = {
            "on_assigned": lambda key, offset: self.assigned.append(key),
            "on_revoked": self.revoked.append,
            "on_lost": lambda key, error: self.revoked.append(key),
        }

    def clear(self) -> None:
        self.assigned.clear()
        self.revoked.clear()


def holds(consumers: list[PullConsumer], count: int) -> Callable[[], bool]:
    return lambda: sum(len(consumer.registered()) for consumer in consumers) == count


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "crashed"])
def test_broker_restart(cluster: EmbeddedTubeMQ, settings: ClientSettings, start: Start, clean: bool) -> None:
    """Only the partitions of a broker move if it stops and starts again."""
    moves = Moves()
    consumers = [start(node, 2, **moves.callbacks) for node in range(2)]
    wait_for(holds(consumers, 8), "all partitions")
    moves.clear()
    with ExitStack() as reading:
        readers = [reading.enter_context(Reader(consumer)) for consumer in consumers]
        with Writer(settings, "clicks") as writer:
            wait_for(lambda: counted(readers).total() > 200, "some messages to be read")
            cluster.stop_broker(1, clean=clean)
            before = [len(reader.read) for reader in readers]
            wait_for(
                lambda: all(len(reader.read) > count for reader, count in zip(readers, before, strict=True)),
                "the other broker's messages to be read",
            )
            cluster.start_broker(1)
            wait_for(holds(consumers, 8), "all partitions again")
        # What could not be confirmed comes again, unless the broker took the confirmation and could not say so.
        wait_for(
            lambda: set(writer.sent) <= {*counted(readers), *(body for one in readers for body in one.unsure)},
            "all messages to be read",
        )
        wait_for(lambda: Admin(settings).group_offsets("etl").rows_behind == 0, "all messages to be confirmed")
    assert {key.broker_id for key in (*moves.assigned, *moves.revoked)} <= {1}
    unsure = {body for reader in readers for body in reader.unsure}
    assert {body for body, count in counted(readers).items() if count > 1} <= unsure


def test_a_topic_that_grows_is_followed(cluster: EmbeddedTubeMQ, start: Start) -> None:
    consumers = [start(node, 2) for node in range(2)]
    wait_for(holds(consumers, 8), "all partitions")
    cluster.grow_topic("clicks", stores=3)
    wait_for(holds(consumers, 12), "the new partitions too")
    keys = sorted(key for consumer in consumers for key in consumer.registered())
    assert keys == list(consumers[0].partitions())
    cluster.load("clicks", [NewMessage(20_001, b"new")], broker_id=2)
    with Reader(consumers[0]) as one, Reader(consumers[1]) as other:
        wait_for(lambda: counted([one, other]) == {b"new": 1}, "what is in a new partition")


def test_partition_taken_away(cluster: EmbeddedTubeMQ, start: Start) -> None:
    """A consumer takes a lost partition again as soon as it is free."""
    moves = Moves()
    consumer = start(**moves.callbacks)
    wait_for(holds([consumer], 8), "all partitions")
    cursor = Cursor("etl", "clicks", 0)
    far_future = 1 << 60
    cluster.inspect(lambda broker: broker.ownership.release(cursor))
    cluster.inspect(lambda broker: broker.ownership.take(cursor, RivalReader("thief", None, 0, 0), far_future))
    with Reader(consumer):
        wait_for(lambda: moves.revoked == [PartitionKey(1, "clicks", 0)], "the loss to be noticed")
        cluster.inspect(lambda broker: broker.ownership.release(cursor))
        wait_for(holds([consumer], 8), "it to be had again")
