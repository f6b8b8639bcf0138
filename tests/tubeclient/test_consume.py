"""Consumers of a group on simulated brokers: whatever the network does, each message is confirmed by somebody once."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embedded_tubemq.broker import Broker
from embedded_tubemq.catalogue import Catalogue, TopicConfig
from embedded_tubemq.offsets import GroupOffsets
from embedded_tubemq.store import NewMessage
from embedded_tubemq.stores import StoreDirectory
from tests.tubeclient.simulation import Actor, Simulation, Weather
from tubeclient.assignment import assign
from tubeclient.errors import StalePack, TransportError
from tubeclient.flows.balance import balance_once
from tubeclient.flows.consume import Consumption
from tubeclient.flows.effects import Flow, Sleep
from tubeclient.flows.keep_leases import keep_leases
from tubeclient.flows.registrations import Assigned, ReadPlan, Registrations
from tubeclient.keys import BrokerInfo, PartitionKey, TopicLayout
from tubeclient.metadata import ClusterView

TOPIC = "clicks"
STORMY = Weather(lose_request=0.02, lose_answer=0.02, break_connection=0.02)


class Client:
    """One consumer: its flows run as actors of the simulation."""

    def __init__(self, bench: Bench, name: str, **options: Any) -> None:
        self.bench = bench
        plan = ReadPlan("etl", name, {}, start_from="earliest", **options)
        self.registrations = Registrations(plan, bench.simulation.random)
        self.consumption = Consumption(self.registrations)
        self.events: list[Any] = []

    def do(self, flow: Any) -> Any:
        """Run a flow alone; its result or its error."""
        return self.bench.simulation.finish(flow, on_event=self.handle)

    def handle(self, event: Any) -> None:
        self.events.append(event)
        if isinstance(event, Assigned):
            line = self.registrations.holdings.lines[event.partition.broker_id]
            if not line.kept:
                line.kept = True
                self.bench.simulation.start(keep_leases(self.registrations, line), on_event=self.handle)

    def work(self, got: list[tuple[PartitionKey, bytes]]) -> Flow[None]:
        """Take packs and confirm them until the bench is over; what is confirmed counts as got."""
        while not self.bench.over:
            delivery = yield from self.consumption.get(timeout_ms=1_000)
            if delivery is None:
                continue
            bodies = delivery.bodies
            yield Sleep(self.bench.simulation.random.random() * 50)
            try:
                yield from self.consumption.confirm(delivery, consumed=True)
            except (StalePack, TransportError):
                self.bench.unsure.update(bodies)
                continue
            got += [(delivery.partition, body) for body in bodies]

    def balance(self, deal: Any) -> Flow[None]:
        """Keep to what `deal(keys)` gives this client."""
        while not self.bench.over:
            ours = deal(self.bench.view.partitions())
            yield from balance_once(self.registrations, self.bench.view, ours, {}, release_wait_ms=500)
            yield Sleep(1_000)


class Bench:
    """Brokers with messages, and consumers."""

    def __init__(
        self,
        folder: Path,
        *,
        brokers: int = 1,
        stores: int = 1,
        partitions: int = 2,
        seed: int = 1,
        weather: Weather | None = None,
    ) -> None:
        self.random = random.Random(seed)
        self.infos = {n + 1: BrokerInfo(n + 1, "127.0.0.1", 8123 + n) for n in range(brokers)}
        self.brokers: dict[int, Broker] = {}
        for number in self.infos:
            catalogue = Catalogue(0, [TopicConfig(TOPIC, stores, partitions)])
            directory = StoreDirectory(folder / str(number), catalogue, lambda: 0)
            self.brokers[number] = Broker(number, catalogue, directory, GroupOffsets())
        self.simulation = Simulation(
            {self.infos[number].address: broker for number, broker in self.brokers.items()}, seed, weather
        )
        self.layout(stores, partitions)
        self.sent: list[tuple[PartitionKey, bytes]] = []
        self.unsure: set[bytes] = set()
        self.over = False

    def layout(self, stores: int, partitions: int) -> None:
        layouts = [TopicLayout(TOPIC, number, stores, partitions) for number in self.infos]
        self.view = ClusterView.of(self.infos.values(), layouts)

    def send(self, count: int) -> None:
        keys = self.view.partitions()
        for _ in range(count):
            key = self.random.choice(keys)
            body = b"%06d" % len(self.sent) + bytes(self.random.randrange(3_000))
            store = self.brokers[key.broker_id].stores.get(TOPIC, key.store.store_id)
            store.append_all([NewMessage(key.partition_id, body)], int(self.simulation.now_ms))
            self.sent.append((key, body))

    def key(self, number: int = 0) -> PartitionKey:
        return self.view.partitions()[number]

    def client(self, name: str = "one", **options: Any) -> Client:
        return Client(self, name, **options)

    def run_until_read(self, got: list[tuple[PartitionKey, bytes]], limit_ms: float = 600_000) -> None:
        """Let time pass until each message was got, or may have been confirmed without the client knowing it."""
        for _ in range(int(limit_ms / 500)):
            if len({body for _, body in got} | self.unsure) >= len(self.sent):
                break
            self.simulation.run(500)
        self.over = True
        self.simulation.run(60_000)


def fail_if_dead(actors: list[Actor]) -> None:
    for actor in actors:
        if actor.error is not None:
            raise actor.error


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 1 << 32),
    brokers=st.integers(1, 2),
    stores=st.integers(1, 2),
    partitions=st.integers(1, 3),
    clients=st.integers(1, 3),
    workers=st.integers(1, 3),
    prefetch=st.integers(0, 3),
    half=st.booleans(),
    advancing=st.booleans(),
)
def test_in_calm_weather_each_message_is_read_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    brokers: int,
    stores: int,
    partitions: int,
    clients: int,
    workers: int,
    prefetch: int,
    half: bool,
    advancing: bool,
) -> None:
    folder = tmp_path_factory.mktemp("calm")
    bench = Bench(folder, brokers=brokers, stores=stores, partitions=partitions, seed=seed)
    for broker in bench.brokers.values():
        broker.faults.half_packs, broker.faults.advancing_404 = half, advancing
    bench.send(200)
    got: list[tuple[PartitionKey, bytes]] = []
    actors = []
    for number in range(clients):
        client = bench.client(f"client-{number}", prefetch=prefetch)
        deal = lambda keys, n=number: assign("modulo", keys, clients)[n]  # noqa: E731
        actors.append(bench.simulation.start(client.balance(deal), on_event=client.handle))
        actors += [bench.simulation.start(client.work(got), on_event=client.handle) for _ in range(workers)]
    for moment in range(5):
        bench.simulation.at(moment * 300 + 200, lambda: bench.send(40))
    bench.simulation.run(2_000)
    bench.run_until_read(got)
    fail_if_dead(actors)
    assert not bench.unsure
    for key in bench.view.partitions():
        assert [body for k, body in got if k == key] == [body for k, body in bench.sent if k == key]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 1 << 32),
    clients=st.integers(1, 3),
    workers=st.integers(1, 3),
    prefetch=st.integers(0, 3),
    advancing=st.booleans(),
    moving=st.booleans(),
)
def test_in_a_storm_nothing_is_lost_and_only_what_could_not_be_confirmed_comes_twice(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    clients: int,
    workers: int,
    prefetch: int,
    advancing: bool,
    moving: bool,
) -> None:
    bench = Bench(tmp_path_factory.mktemp("storm"), brokers=2, partitions=3, seed=seed, weather=STORMY)
    for broker in bench.brokers.values():
        broker.faults.advancing_404 = advancing
    bench.send(200)
    got: list[tuple[PartitionKey, bytes]] = []
    actors = []
    for number in range(clients):
        client = bench.client(f"client-{number}", prefetch=prefetch)

        def deal(keys: list[PartitionKey], n: int = number) -> list[PartitionKey]:
            # Nodes change places every few seconds where partitions are to move.
            turn = int(bench.simulation.now_ms // 5_000) if moving else 0
            return assign("modulo", keys, clients)[(n + turn) % clients]

        actors.append(bench.simulation.start(client.balance(deal), on_event=client.handle))
        actors += [bench.simulation.start(client.work(got), on_event=client.handle) for _ in range(workers)]
    for moment in range(5):
        bench.simulation.at(moment * 3_000 + 200, lambda: bench.send(40))
    bench.simulation.run(16_000)
    bench.run_until_read(got)
    fail_if_dead(actors)
    bodies = [body for _, body in got]
    assert set(bodies) | bench.unsure == {body for _, body in bench.sent}
    assert {body for body in bodies if bodies.count(body) > 1} <= bench.unsure
