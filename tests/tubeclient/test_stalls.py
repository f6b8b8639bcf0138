"""A client that stood still for longer than its lease, and what others did with its partition meanwhile."""

from __future__ import annotations

import pytest

from embedded_tubemq.broker.broker import Broker
from embedded_tubemq.broker.offsets import Cursor
from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.storage.store import NewMessage
from tests.tubeclient.consuming import Bench, Client
from tubeclient import ClientBalanceConsumer, ClientSettings, PartitionKey
from tubeclient.errors import PartitionOccupied, StalePack
from tubeclient.flows.message_pack import Delivery
from tubeclient.flows.registrar import Lost

LEASE_MS = 30_000
"""Of Apache's broker, as it comes."""


@pytest.fixture(params=[0.3, 1.0], ids=["broker-with-a-shorter-lease", "usual-lease"])
def stalled(bench: Bench, request: pytest.FixtureRequest) -> tuple[Client, Delivery]:
    """A client with a first pack confirmed and a second one out, that stands still since then; its lease is over."""
    lease_ms = LEASE_MS * request.param
    bench.brokers[1].ownership.lease_ms = int(lease_ms)
    client = bench.client("stalled")
    client.connect(bench.key())
    client.confirm(client.get())
    pack = client.get()
    client.stand_still()
    bench.simulation.at(lease_ms + 2_000, lambda: None)  # else there is nothing for time to pass for
    bench.simulation.run(lease_ms + 2_000)
    return client, pack


def take_over(bench: Bench, pack: Delivery) -> Client:
    """Another client reads from the last confirmed position to the end."""
    other = bench.client("other")
    assert other.connect(bench.key()) == pack.start
    assert other.drain() == bench.of(bench.key())[pack.start // 28 :]
    return other


@pytest.mark.parametrize("heartbeat_first", [True, False], ids=["heartbeat", "confirm"])
def test_others_confirmed_and_released(bench: Bench, stalled: tuple[Client, Delivery], heartbeat_first: bool) -> None:
    """A client does not read again what others confirmed and released while it stalled."""
    client, pack = stalled
    other = take_over(bench, pack)
    assert other.disconnect(bench.key())
    if heartbeat_first:
        client.go_on()
    with pytest.raises(StalePack):
        client.confirm(pack)
    client.go_on()
    end = 28 * len(bench.of(bench.key()))
    assert bench.committed(bench.key()) == end
    assert client.held() == [bench.key()]
    assert client.poll() is None


@pytest.mark.parametrize("heartbeat_first", [True, False], ids=["heartbeat", "confirm"])
def test_partition_of_another_client(bench: Bench, stalled: tuple[Client, Delivery], heartbeat_first: bool) -> None:
    """A stalled client drops its partition without confirming it if another client has it."""
    client, pack = stalled
    other = bench.client("other")
    other.connect(bench.key())
    theirs = other.get()
    assert theirs.bodies[: len(pack)] == pack.bodies[: len(theirs)]
    if heartbeat_first:
        client.go_on()
        assert [event.partition for event in client.events_of(Lost)] == [bench.key()]
    with pytest.raises(StalePack):
        client.confirm(pack)
    client.go_on()
    assert [event.partition for event in client.events_of(Lost)] == [bench.key()]
    assert client.held() == []
    assert bench.committed(bench.key()) == theirs.start
    with pytest.raises(PartitionOccupied):
        client.connect(bench.key())
    other.confirm(theirs)
    assert other.drain()


@pytest.mark.parametrize("restarted", [False, True], ids=["lease-ended", "broker-restarted"])
def test_ended_lease_or_restarted_broker(cluster: EmbeddedTubeMQ, settings: ClientSettings, restarted: bool) -> None:
    """Over sockets: what others confirmed stays so; what a clean stop confirmed unasked comes again."""
    key, cursor = PartitionKey(1, "single", 0), Cursor("etl", "single", 0)
    cluster.load("single", [NewMessage(0, bytes(3_000)) for _ in range(1_000)])  # several packs

    def lapse(broker: Broker) -> None:
        """The lease ends, and another client reads to the end."""
        broker.ownership.release(cursor)
        broker.offsets.reset(cursor, 28_000, broker.stores.get("single", 0).bounds)

    with ClientBalanceConsumer(settings, "etl", ["single"], source_count=1, node_id=0, start_from="earliest") as client:
        client.connect(key)
        pack = client.get(timeout_ms=10_000)
        assert pack is not None
        if restarted:
            cluster.stop_broker(1, clean=True)
            cluster.start_broker(1)
        else:
            cluster.inspect(lapse, broker_id=1)
        with pytest.raises(StalePack):
            client.confirm(pack)
        again = client.get(timeout_ms=1_000)
        assert (again and again.start) == (0 if restarted else None)
