"""The doors before TubeMQ: everything that a client does goes through them, and is held back, slow or refused there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from threading import Thread

import pytest

from tests.conformance.cluster import Cluster
from tests.exactly_once.looking import ends_of_brokers, held_by_brokers
from tests.exactly_once.network import Network
from tests.exactly_once.run import TOPIC, serving
from tests.front_door import Manner
from tests.waiting import wait_for
from tubeclient import Admin, ClientSettings, PartitionKey, TubeError

KEYS = [PartitionKey(broker_id, TOPIC.name, store * 10_000) for broker_id in (1, 2) for store in (0, 1)]


@pytest.fixture(scope="module", params=["embedded", pytest.param("apache", marks=pytest.mark.apache)])
def tube(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with serving(request.param, tmp_path_factory.mktemp("tube")) as cluster:
        for key in KEYS:
            cluster.put(key, [b"1", b"2"])
        yield cluster


@pytest.fixture
def network(tube: Cluster) -> Iterator[Network]:
    with Network(tube) as network:
        yield network


@pytest.fixture
def settings(network: Network) -> ClientSettings:
    return ClientSettings(
        network.master_servers,
        master_web_port=network.master_web_port,
        connect_timeout_ms=1_000,
        rpc_timeout_ms=3_000,
        http_timeout_ms=1_000,
        retry_limit_ms=2_000,
    )


def test_a_client_of_the_doors_meets_doors_alone(tube: Cluster, network: Network, settings: ClientSettings) -> None:
    assert len(held_by_brokers(settings, TOPIC.name)) == 2 * len(KEYS)
    assert ends_of_brokers(settings, TOPIC.name) == ends_of_brokers(tube.settings, TOPIC.name)
    assert all(network.asked(name) for name in ("master 1", "broker 1", "broker 2"))
    [first, second] = Admin(settings).brokers()
    real = set(tube.broker_webs.values())
    assert {first.web_address, second.web_address}.isdisjoint(real)
    assert {first.info.address, second.info.address}.isdisjoint({info.address for info in tube.brokers.values()})


@pytest.mark.parametrize("name", ["master 1", "master 2", "broker 1", "broker 2"])
@pytest.mark.parametrize("manner", [Manner.DEAD, Manner.SILENT])
def test_nothing_passes_a_door_that_is_closed(
    network: Network, settings: ClientSettings, name: str, manner: Manner
) -> None:
    masters = network.masters if name in network.masters else []
    with network.behaving(manner, name, *masters), pytest.raises(TubeError):
        held_by_brokers(settings, TOPIC.name)
    assert len(held_by_brokers(settings, TOPIC.name)) == 2 * len(KEYS)


def test_what_was_held_back_arrives(network: Network, settings: ClientSettings) -> None:
    found: list[int] = []
    with ExitStack() as stack:
        stack.enter_context(network.behaving(Manner.SILENT, *network.brokers))
        reader = Thread(target=lambda: found.append(len(held_by_brokers(settings, TOPIC.name))))
        reader.start()
        time.sleep(1)
        assert found == []
        stack.close()
        wait_for(lambda: found == [2 * len(KEYS)], "the answers")
        reader.join(10)


def test_a_slow_network_is_slow_in_both_directions(network: Network, settings: ClientSettings) -> None:
    started = time.monotonic()
    with network.behaving(Manner.LATE, *network.masters, *network.brokers, late_seconds=0.2):
        assert ends_of_brokers(settings, TOPIC.name)
    # One round trip to a master and one to a broker at the least.
    assert time.monotonic() - started >= 0.8


@pytest.mark.parametrize("manner", [Manner.DEAD, Manner.SILENT, Manner.STANDBY])
def test_there_is_another_master_to_go_on_with(network: Network, settings: ClientSettings, manner: Manner) -> None:
    assert ends_of_brokers(settings, TOPIC.name)
    assert network.master_in_use == "master 1"
    with network.behaving(manner, "master 1"):
        assert ends_of_brokers(settings, TOPIC.name)
    assert network.master_in_use == "master 2"
