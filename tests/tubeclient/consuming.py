"""Simulated brokers with messages, and consumers of one group on them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from embedded_tubemq.broker.broker import Broker
from embedded_tubemq.broker.offsets import Cursor, GroupOffsets
from embedded_tubemq.common.catalogue import Catalogue, TopicConfig
from embedded_tubemq.storage.store import NewMessage, Store, StoreDirectory
from tests.tubeclient.simulation import Actor, Simulation, Weather
from tubeclient.errors import StalePack, TransportError
from tubeclient.flows.effects import Flow, Sleep
from tubeclient.flows.fetch import Fetcher
from tubeclient.flows.holding import BrokerLine
from tubeclient.flows.leases import keep_leases
from tubeclient.flows.message_pack import Delivery
from tubeclient.flows.read_plan import BootstrapOffset, ReadPlan
from tubeclient.flows.registrar import Registrar
from tubeclient.keys import BrokerInfo, PartitionKey, TopicLayout
from tubeclient.metadata import ClusterView

TOPIC = "clicks"
GROUP = "etl"
LOOKERS = ("etl-r0", "etl-r1")
"""Its reader groups; without them a client looks for no losses."""
STORMY = Weather(lose_request=0.02, lose_answer=0.02, break_connection=0.02)
LATE = Weather(come_late=0.05)


class Client:
    """One consumer: its flows run as actors of the simulation."""

    def __init__(self, bench: Bench, name: str, **options: Any) -> None:
        self.bench = bench
        plan = ReadPlan(GROUP, name, **{"filters": {}, "start_from": "earliest", **options})
        self.registrar = Registrar(plan, bench.simulation.random)
        self.fetcher = Fetcher(self.registrar)
        self.events: list[Any] = []
        self.keepers: dict[int, Actor] = {}

    def do(self, flow: Any) -> Any:
        """Run a flow alone; its result or its error."""
        return self.bench.simulation.finish(self.registrar.guarded(flow), on_event=self.handle)

    def handle(self, event: Any) -> None:
        if not isinstance(event, BrokerLine):
            self.events.append(event)
        elif event.info.broker_id not in self.keepers:
            flow = keep_leases(self.registrar, event)
            self.keepers[event.info.broker_id] = self.bench.simulation.start(flow, on_event=self.handle)

    def held(self) -> list[PartitionKey]:
        return self.registrar.holdings.assigned()

    def connect(self, key: PartitionKey, offset: int = BootstrapOffset.STORED, timeout_ms: float = 0) -> int:
        start: int = self.do(self.registrar.connect(self.bench.view, key, offset, timeout_ms=timeout_ms))
        return start

    def disconnect(self, key: PartitionKey, wait_ms: float = 0) -> bool:
        released: bool = self.do(self.registrar.disconnect(key, wait_ms=wait_ms))
        return released

    def get(self, timeout_ms: float = 1_000) -> Delivery:
        """The next pack; there must be one."""
        delivery = self.poll(timeout_ms)
        assert delivery is not None, "there was no pack"
        return delivery

    def poll(self, timeout_ms: float = 1_000) -> Delivery | None:
        delivery: Delivery | None = self.do(self.fetcher.get(timeout_ms=timeout_ms))
        return delivery

    def confirm(self, delivery: Delivery, consumed: bool = True) -> int:
        position: int = self.do(self.fetcher.confirm(delivery, consumed=consumed))
        return position

    def drain(self) -> list[bytes]:
        """Get and confirm until there is nothing."""
        bodies: list[bytes] = []
        while (delivery := self.poll()) is not None:
            bodies += delivery.bodies
            self.confirm(delivery)
        return bodies

    def stand_still(self) -> None:
        """Nothing keeps its leases until it goes on."""
        for keeper in self.keepers.values():
            self.bench.simulation.stop(keeper)

    def go_on(self) -> None:
        for keeper in self.keepers.values():
            self.bench.simulation.go_on(keeper)
        self.bench.simulation.run(1_000)

    def events_of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def work(self, got: list[tuple[PartitionKey, bytes]]) -> Flow[None]:
        """Take packs and confirm them until the bench is over; what is confirmed counts as got."""
        while not self.bench.over:
            delivery = yield from self.fetcher.get(timeout_ms=1_000)
            if delivery is None:
                continue
            yield Sleep(self.bench.simulation.random.random() * 50)
            try:
                yield from self.fetcher.confirm(delivery, consumed=True)
            except (StalePack, TransportError):
                self.bench.unsure.update(delivery.bodies)
                continue
            got += [(delivery.partition, body) for body in delivery.bodies]

    def balance(self, assignment: Any) -> Flow[None]:
        """Keep to what `assignment(keys)` gives this client."""
        while not self.bench.over:
            ours = assignment(self.bench.view.partitions())
            yield from self.registrar.balance(self.bench.view, ours, {}, release_wait_ms=500)
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
            self.store(key).append_all([NewMessage(key.partition_id, body)], int(self.simulation.now_ms))
            self.sent.append((key, body))

    def key(self, number: int = 0) -> PartitionKey:
        return self.view.partitions()[number]

    def store(self, key: PartitionKey) -> Store:
        return self.brokers[key.broker_id].stores.get(TOPIC, key.store.store_id)

    def cursor(self, key: PartitionKey) -> Cursor:
        return Cursor(GROUP, TOPIC, key.partition_id)

    def committed(self, key: PartitionKey) -> int | None:
        """The group's position, as the broker has it."""
        return self.brokers[key.broker_id].offsets.committed(self.cursor(key))

    def of(self, key: PartitionKey) -> list[bytes]:
        """The bodies that were sent to a partition, in order."""
        return [body for other, body in self.sent if other == key]

    def restart_cleanly(self, key: PartitionKey) -> None:
        """What becomes of a partition when its broker is stopped cleanly and started again."""
        broker = self.brokers[key.broker_id]
        self.simulation.disconnect(self.infos[key.broker_id].address)
        broker.offsets.commit(self.cursor(key), consumed=True)
        broker.ownership.release(self.cursor(key))

    def client(self, name: str = "one", **options: Any) -> Client:
        return Client(self, name, **options)

    def connected(self, **options: Any) -> Client:
        """A client that has the first partition."""
        client = self.client(**options)
        client.connect(self.key())
        return client

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
