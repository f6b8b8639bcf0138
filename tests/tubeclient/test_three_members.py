"""One of three members that share a group is stopped, and continued; on embedded servers with short leases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_tubemq.broker.broker import Broker
from embedded_tubemq.broker.offsets import Cursor
from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.common.catalogue import TopicConfig
from tests.tubeclient.member_process import GROUP
from tests.tubeclient.three_members import Owners, stop_one_of_three
from tubeclient import ClientSettings, PartitionKey

TOPIC = "clicks"
LEASE_MS = 4_000
PARTITIONS = [PartitionKey(broker, TOPIC, number) for broker in (1, 2) for number in (0, 1, 10_000, 10_001)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EmbeddedTubeMQ]:
    """With short leases, of clients at the master and of partitions at the brokers."""
    topics = [TopicConfig(TOPIC, stores=2, partitions=2)]
    with EmbeddedTubeMQ(tmp_path / "tubemq", topics, brokers=2, lease_ms=LEASE_MS) as running:
        yield running


def owners(cluster: EmbeddedTubeMQ) -> Owners:
    """Who owns each partition, as the brokers have it."""

    def look(broker: Broker) -> Owners:
        found = {
            key: broker.ownership.owner(Cursor(GROUP, TOPIC, key.partition_id))
            for key in PARTITIONS
            if key.broker_id == broker.broker_id
        }
        return {key: reader.client_id for key, reader in found.items() if reader is not None}

    return cluster.inspect(look, broker_id=1) | cluster.inspect(look, broker_id=2)


def test_stopped_member(cluster: EmbeddedTubeMQ, tmp_path: Path) -> None:
    """Other members read for a stopped member, and it gets its share back when it continues."""
    settings = ClientSettings((cluster.master_address,), master_web_port=cluster.master_web_port)
    stop_one_of_three(settings, TOPIC, tmp_path, lambda: owners(cluster))
