"""A partition given back while its broker was away, and had again: nothing between is lost, nothing confirmed comes."""

from __future__ import annotations

import pytest

from embedded_tubemq.broker.ownership import Ownership
from tests.tubeclient.consuming import Bench, Client
from tests.tubeclient.simulation import Weather
from tubeclient.errors import PartitionOccupied

AWAY = Weather(break_connection=1.0)
CALM = Weather()


@pytest.fixture
def client(bench: Bench) -> Client:
    """It has confirmed a first pack; the broker has noted a second one as fetched."""
    client = bench.connected(prefetch=1)
    client.confirm(client.get())
    bench.simulation.run(100)
    return client


def go_away(bench: Bench, client: Client, *, clean: bool) -> None:
    """Stop the broker, let the client give the partition back, and start the broker anew."""
    broker = bench.brokers[1]
    bench.simulation.weather = AWAY
    if clean:
        broker.offsets.commit_all()
    else:
        broker.offsets.reset(bench.cursor(bench.key()), 28, bench.store(bench.key()).bounds)
    assert client.disconnect(bench.key())
    assert client.held() == []
    broker.ownership = Ownership(broker.settings.lease_ms)
    bench.simulation.weather = CALM


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "crashed"])
def test_a_partition_goes_on_where_it_was_confirmed(bench: Bench, client: Client, clean: bool) -> None:
    confirmed = client.registrar.holdings.by_key[bench.key()].confirmed
    assert confirmed > 28
    go_away(bench, client, clean=clean)
    assert bench.committed(bench.key()) != confirmed
    assert client.connect(bench.key()) == confirmed
    assert client.drain() == bench.of(bench.key())[confirmed // 28 :]


def test_what_others_confirmed_after_a_return_that_the_broker_knew_of_stays_confirmed(
    bench: Bench, client: Client
) -> None:
    assert client.disconnect(bench.key())
    other = bench.client("other")
    other.connect(bench.key())
    other.confirm(other.get())
    position = bench.committed(bench.key())
    other.disconnect(bench.key())
    assert client.connect(bench.key()) == position


def test_what_others_took_over_meanwhile_is_not_taken_back(bench: Bench, client: Client) -> None:
    go_away(bench, client, clean=True)
    other = bench.client("other")
    other.connect(bench.key())
    with pytest.raises(PartitionOccupied):
        client.connect(bench.key())
    other.confirm(other.get())
    position = bench.committed(bench.key())
    other.disconnect(bench.key())
    assert client.connect(bench.key()) == position


def test_a_partition_dealt_to_another_node_meanwhile_is_not_taken_back(bench: Bench, client: Client) -> None:
    go_away(bench, client, clean=True)
    client.do(client.registrar.balance(bench.view, [], {}, release_wait_ms=0))
    position = bench.committed(bench.key())
    client.do(client.registrar.balance(bench.view, [bench.key()], {}, release_wait_ms=0))
    assert client.registrar.holdings.by_key[bench.key()].confirmed == position
