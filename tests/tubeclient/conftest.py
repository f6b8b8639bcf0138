"""A running embedded TubeMQ with real sockets."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.common.catalogue import TopicConfig
from tests.tubeclient.consuming import Bench, Client
from tests.waiting import wait_for
from tubeclient import ClientSettings
from tubeclient.net import pool


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EmbeddedTubeMQ]:
    topics = [TopicConfig("clicks", stores=2, partitions=2), TopicConfig("single")]
    with EmbeddedTubeMQ(tmp_path / "tubemq", topics, brokers=2) as running:
        yield running


@pytest.fixture
def settings(cluster: EmbeddedTubeMQ) -> ClientSettings:
    return ClientSettings(
        (cluster.master_address,),
        master_web_port=cluster.master_web_port,
        connect_timeout_ms=1_000,
        rpc_timeout_ms=2_000,
        retry_limit_ms=20_000,
    )


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A simulated broker with two stores of one partition, each of which a reader has in several packs."""
    bench = Bench(tmp_path, partitions=1, stores=2)
    bench.brokers[1].faults.half_packs = True
    bench.send(120)
    return bench


@pytest.fixture
def client(bench: Bench) -> Client:
    return bench.connected()


def close_shared_pools() -> None:
    """Close this process's pools of `shared_pool`; its next call makes new ones."""
    for place in list(pool._shared):
        if place[0] == os.getpid():
            pool._shared.pop(place).close()


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    """Whatever a test closes must be gone afterwards: no thread of the client outlives it."""
    close_shared_pools()  # of tests elsewhere, whose servers may live as long as the run
    yield
    close_shared_pools()
    wait_for(lambda: "tubeclient-" not in " ".join(one.name for one in threading.enumerate()), "threads to end")
