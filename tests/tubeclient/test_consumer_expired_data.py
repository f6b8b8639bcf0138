"""Consumers whose group stands where data has expired and its index has not: they say so, and read on behind it."""

from __future__ import annotations

import logging

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.storage.store import NewMessage
from tests.tubeclient.occupying import occupy
from tubeclient import (
    ClientBalanceConsumer,
    ClientSettings,
    DataLoss,
    OffsetRange,
    PartitionKey,
    PullConsumer,
)

ENTRY = 28
COUNT = 20_000
ALONE, SHARED = PartitionKey(1, "single", 0), PartitionKey(1, "clicks", 1)


@pytest.fixture(autouse=True)
def messages(cluster: EmbeddedTubeMQ) -> None:
    """Messages that tell their index entry; in "clicks" those of two partitions take turns."""
    cluster.load("single", [NewMessage(0, b"%d" % n) for n in range(COUNT)])
    cluster.load("clicks", [NewMessage(n % 2, b"%d" % n) for n in range(COUNT)])


@pytest.fixture(params=[ALONE, SHARED], ids=["alone", "shared"])
def key(request: pytest.FixtureRequest) -> PartitionKey:
    found: PartitionKey = request.param
    return found


def stand(cluster: EmbeddedTubeMQ, settings: ClientSettings, key: PartitionKey, entry: int) -> None:
    """The group stands there from an earlier run."""
    with occupy(cluster, settings, key, ("etl",), offset=entry * ENTRY):
        pass


def read_all(consumer: ClientBalanceConsumer, losses: list[DataLoss]) -> list[int]:
    """Everything up to the end, and what was raised meanwhile."""
    found: list[int] = []
    while not found or found[-1] < COUNT - 2:
        try:
            delivery = consumer.get(timeout_ms=20_000)
        except DataLoss as error:
            losses.append(error)
            continue
        assert delivery is not None
        found += [int(body) for body in delivery.bodies]
        consumer.confirm(delivery)
    for _ in range(2):
        try:
            assert consumer.get(timeout_ms=100) is None
        except DataLoss as error:
            losses.append(error)
    return found


def of(key: PartitionKey, start: int) -> list[int]:
    return [n for n in range(start, COUNT) if key == ALONE or n % 2 == key.partition_id]


@pytest.mark.parametrize("gone", [500, 9_500])  # within one answer of the broker, and more
def test_what_expired_before_it_was_read_is_raised_once(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, key: PartitionKey, gone: int
) -> None:
    stand(cluster, settings, key, 10)
    cluster.expire_data(key.topic, gone * ENTRY)
    losses: list[DataLoss] = []
    with ClientBalanceConsumer(settings, "etl", [key.topic], source_count=1, node_id=0).start() as consumer:
        assert consumer.connect(key) == 10 * ENTRY
        assert read_all(consumer, losses) == of(key, gone)
    [loss] = losses
    assert str(OffsetRange(key, 10 * ENTRY, gone * ENTRY)) in str(loss)
    assert (loss.wanted, loss.found) == (10 * ENTRY, gone * ENTRY)


def test_it_may_be_passed_over_with_a_warning(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, key: PartitionKey, caplog: pytest.LogCaptureFixture
) -> None:
    stand(cluster, settings, key, 10)
    cluster.expire_data(key.topic, 700 * ENTRY)
    losses: list[DataLoss] = []
    with (
        caplog.at_level(logging.WARNING, "tubeclient.consumer"),
        PullConsumer(
            settings, "etl", [key.topic], strategy=lambda _: [key], fail_on_data_loss=False
        ).start() as consumer,
    ):
        assert read_all(consumer, losses) == of(key, 700)
    assert losses == []
    assert f"expired before they were read: {OffsetRange(key, 10 * ENTRY, 700 * ENTRY)}" in caplog.text


def test_a_new_group_that_begins_with_the_earliest_message_has_lost_nothing(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, key: PartitionKey
) -> None:
    cluster.expire_data(key.topic, 9_000 * ENTRY)
    losses: list[DataLoss] = []
    consumer = ClientBalanceConsumer(settings, "etl", [key.topic], source_count=1, node_id=0, start_from="earliest")
    with consumer.start():
        consumer.connect(key)
        assert read_all(consumer, losses) == of(key, 9_000)
    assert losses == []


def test_a_group_behind_expired_data_has_lost_nothing(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, key: PartitionKey
) -> None:
    stand(cluster, settings, key, 9_000)
    cluster.expire_data(key.topic, 9_000 * ENTRY)
    losses: list[DataLoss] = []
    with ClientBalanceConsumer(settings, "etl", [key.topic], source_count=1, node_id=0).start() as consumer:
        consumer.connect(key)
        assert read_all(consumer, losses) == of(key, 9_000)
    assert losses == []
