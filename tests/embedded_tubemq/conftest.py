"""Fixtures of the embedded TubeMQ's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from tests.embedded_tubemq.machines import FakeBroker
from tests.embedded_tubemq.raw_client import RawClient


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[FakeBroker]:
    """A broker whose topic flights has one store of two partitions."""
    fake = FakeBroker(tmp_path / "broker")
    yield fake
    fake.stores.close()


@pytest.fixture
def tube(tmp_path: Path) -> Iterator[EmbeddedTubeMQ]:
    """Two brokers on sockets; topic flights has two stores of two partitions."""
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("flights", 2, 2)], brokers=2) as running:
        yield running


@pytest.fixture
def to_broker(tube: EmbeddedTubeMQ) -> Iterator[RawClient]:
    with RawClient(tube.broker_addresses[1]) as client:
        yield client


@pytest.fixture
def to_master(tube: EmbeddedTubeMQ) -> Iterator[RawClient]:
    with RawClient(tube.master_address) as client:
        yield client
