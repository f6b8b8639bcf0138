"""Masters and brokers, asked over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from embedded_tubemq.storage.store import NewMessage
from tubeclient.errors import ConfigurationError, TubeError
from tubeclient.keys import StoreBounds, StoreKey
from tubeclient_cli.common.cluster import settings_of
from tubeclient_cli.dashboard.cluster_look import ClusterLook


@pytest.fixture
def tube(tmp_path: Path) -> Iterator[EmbeddedTubeMQ]:
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("clicks", partitions=2)], brokers=2) as running:
        running.load("clicks", [NewMessage(n % 2, b"x") for n in range(10)], broker_id=2)
        yield running


def look_of(tube: EmbeddedTubeMQ) -> ClusterLook:
    options = {"masterWebPort": str(tube.master_web_port)}
    return ClusterLook(settings_of(tube.master_address, options), lambda: None)


def test_brokers_layouts_and_ends(tube: EmbeddedTubeMQ) -> None:
    found = look_of(tube)()
    assert [(broker.state.info.broker_id, broker.failure) for broker in found.brokers] == [(1, None), (2, None)]
    assert found.ends[StoreKey(2, "clicks", 0)] == StoreBounds(0, 280)
    assert sum(len(layout.partitions()) for layout in found.layouts) == 4
    assert found.members == {}
    assert found.silent == frozenset()


def test_a_broker_that_is_down_is_in_the_answer_as_such(tube: EmbeddedTubeMQ) -> None:
    look = look_of(tube)
    tube.stop_broker(2, clean=False)
    found = look()
    assert found.silent == {2}
    assert found.brokers[1].failure
    assert {store.broker_id for store in found.ends} <= {1}


def test_without_any_master_it_is_an_error(tube: EmbeddedTubeMQ) -> None:
    look = look_of(tube)
    tube.stop()
    with pytest.raises(TubeError):
        look()


def test_a_web_port_of_another_cluster_is_an_error(tube: EmbeddedTubeMQ, tmp_path: Path) -> None:
    with EmbeddedTubeMQ(tmp_path / "other", [TopicConfig("views")]) as other:
        options = {"masterWebPort": str(other.master_web_port)}
        mixed = ClusterLook(settings_of(tube.master_address, options), lambda: None)
        with pytest.raises(ConfigurationError, match="it is another cluster's"):
            mixed()
        # With no master to ask it shows what the web port says.
        assert ClusterLook(settings_of("127.0.0.1:1", options), lambda: None)().layouts[0].topic == "views"
