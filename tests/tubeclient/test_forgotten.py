"""Consumers that nobody has any more and nobody closed: what they had is given back, and it is said."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from embedded_tubemq.broker.offsets import Cursor
from embedded_tubemq.cluster import EmbeddedTubeMQ
from tests.waiting import group_page, wait_for
from tubeclient import ClientBalanceConsumer, ClientSettings, PartitionKey, PullConsumer

KEY = PartitionKey(1, "single", 0)


def balance(settings: ClientSettings) -> ClientBalanceConsumer:
    consumer = ClientBalanceConsumer(settings, "etl", ["single"]).start()
    consumer.connect(KEY)
    return consumer


def dynamic(settings: ClientSettings) -> PullConsumer:
    return PullConsumer(settings, "etl", ["single"], membership="dynamic").start()


def is_owned(cluster: EmbeddedTubeMQ) -> bool:
    return cluster.inspect(lambda broker: broker.ownership.owner(Cursor("etl", "single", 0))) is not None


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("tubeclient-")]


@pytest.mark.parametrize("make", [balance, dynamic])
def test_unclosed_consumer(
    cluster: EmbeddedTubeMQ,
    settings: ClientSettings,
    make: Callable[[ClientSettings], ClientBalanceConsumer],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A garbage-collected consumer gives back its partitions and its place in the group."""
    consumer = make(settings)
    assert consumer.wait_ready(20_000)
    assert is_owned(cluster)
    del consumer
    wait_for(lambda: not is_owned(cluster), "the partition to be given back")
    wait_for(lambda: group_page(cluster.master_web_port, "etl") == {}, "the master to be told")
    wait_for(lambda: threads() == [], "the threads to end")
    assert "of consumerGroup etl was not closed before it was garbage-collected" in caplog.text
