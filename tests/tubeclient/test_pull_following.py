"""Consumers that follow the cluster: brokers and masters that go and come, topics that grow or appear."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from embedded_tubemq.broker.offsets import Cursor
from embedded_tubemq.broker.ownership import Reader as RivalReader
from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.storage.store import NewMessage
from tests.tubeclient.reading import Reader, Writer, counted
from tests.waiting import wait_for
from tubeclient import Admin, ClientSettings, PartitionKey, PullConsumer

Start = Callable[..., PullConsumer]


@pytest.fixture
def start(settings: ClientSettings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """`start(node, count)`: a running consumer of group etl, closed after the test."""
    monkeypatch.setattr("tubeclient.flows.hold_group.HEARTBEAT_INTERVAL_MS", 200)
    with ExitStack() as stack:

        def make(node_id: int = 0, count: int = 1, topics: Any = ("clicks",), **options: Any) -> PullConsumer:
            given: dict[str, Any] = {"balance_interval_ms": 60_000, "metadata_interval_ms": 100, **options}
            consumer = PullConsumer(
                settings, "etl", topics, source_count=count, node_id=node_id, start_from="earliest", **given
            )
            return stack.enter_context(consumer)

        yield make


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
def test_a_broker_goes_and_comes_back_and_only_its_partitions_move(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, start: Start, clean: bool
) -> None:
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


def test_a_partition_that_somebody_took_away_is_tried_for_at_once(cluster: EmbeddedTubeMQ, start: Start) -> None:
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
