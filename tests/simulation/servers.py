"""Masters and brokers: the state machines of `embedded_tubemq`, their files, and what can happen to them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from embedded_tubemq.broker.broker import Broker
from embedded_tubemq.broker.offsets import GroupOffsets
from embedded_tubemq.common.catalogue import BrokerState, Catalogue, Peer, TopicConfig
from embedded_tubemq.master.master import Master
from embedded_tubemq.net.admin import BrokerAdmin, MasterAdmin, Parameters
from embedded_tubemq.net.server import Endpoint
from embedded_tubemq.storage.store import Store, StoreDirectory
from tests.simulation.hub import EPOCH_SECONDS, Hub, Stoppable
from tests.simulation.network import Network
from tubeclient.keys import BrokerInfo

__all__ = ["BROKER_PORT", "MASTER_PORT", "MASTER_WEB_PORT", "BrokerServer", "Cluster", "MasterServer"]

MASTER_PORT, MASTER_WEB_PORT, BROKER_PORT, BROKER_WEB_PORT = 8715, 8080, 8123, 8081
TICK_SECONDS = 1.0


class _Machine(Stoppable):
    """What masters and brokers have in common: lives, and standing still."""

    def __init__(self, hub: Hub, host: str) -> None:
        super().__init__(hub, host)
        self.life = 0
        self._endpoint: Endpoint | None = None
        self._admin: Any = None

    @property
    def up(self) -> bool:
        return self._endpoint is not None

    def now_ms(self) -> int:
        return int((EPOCH_SECONDS + self.hub.now + self.skew_seconds) * 1000)

    def answer(self, stream: bytes, peer: str) -> bytes | None:
        assert self._endpoint is not None
        return self._endpoint.answer(stream, Peer(peer))[0]

    def web(self, path: str, values: dict[str, str]) -> bytes:
        return json.dumps(self._admin.call(Parameters(values))).encode()

    def _ended(self) -> None:
        self._endpoint = None
        self.stopped = False
        self._missed.clear()
        self.life += 1


class MasterServer(_Machine):
    """One of the masters; they share what a real pair replicates: topics and brokers."""

    def __init__(self, cluster: Cluster, host: str) -> None:
        super().__init__(cluster.hub, host)
        self._cluster = cluster
        self.machine: Master | None = None

    def start(self, *, standby: bool) -> None:
        self.machine = Master(self._cluster.catalogue)
        self.machine.faults.standby = standby
        self._endpoint = Endpoint(self.machine, self.now_ms)
        self._admin = MasterAdmin(self.machine, self._cluster.put_topic, "token", self.now_ms)

    def kill(self) -> None:
        self.machine = None
        self._ended()

    def tick(self) -> None:
        if self.machine is not None and not self.stopped:
            self.machine.tick(self.now_ms())


class BrokerServer(_Machine):
    """One broker. A kill loses positions that are not saved yet, and with `lost` entries the newest messages too."""

    def __init__(self, cluster: Cluster, broker_id: int, folder: Path) -> None:
        super().__init__(cluster.hub, f"b{broker_id}")
        self.broker_id = broker_id
        self._cluster = cluster
        self._folder = folder
        self._saved: Any = None
        self.machine: Broker | None = None

    def start(self) -> None:
        offsets = GroupOffsets.load(json.loads(json.dumps(self._saved))) if self._saved is not None else GroupOffsets()
        stores = StoreDirectory(self._folder, self._cluster.catalogue, self.now_ms)
        self.machine = Broker(self.broker_id, self._cluster.catalogue, stores, offsets)
        self._endpoint = Endpoint(self.machine, self.now_ms)
        self._admin = BrokerAdmin(self.machine)
        self._announce(online=True)

    def kill(self, *, clean: bool = False) -> None:
        machine = self.machine
        if machine is None:
            return
        if clean:
            machine.offsets.commit_all()
            self._save(machine)
            self._announce(online=False)
        self.machine = None
        machine.stores.close()
        self._ended()

    def tick(self) -> None:
        if self.machine is not None and not self.stopped:
            self.machine.tick(self.now_ms())
            if self.machine.offsets.changed:
                self._save(self.machine)

    def store(self, topic: str, store_id: int) -> Store:
        assert self.machine is not None
        return self.machine.stores.get(topic, store_id)

    def forget_topic(self, name: str) -> None:
        """Delete the files of a deleted topic, also while the broker is down."""
        if self.machine is not None:
            self.machine.forget_topic(name)
        else:
            shutil.rmtree(self._folder / name, ignore_errors=True)

    def _save(self, machine: Broker) -> None:
        machine.offsets.changed = False
        self._saved = machine.offsets.dump()

    def _announce(self, *, online: bool) -> None:
        info = BrokerInfo(self.broker_id, self.host, BROKER_PORT)
        self._cluster.catalogue.put_broker(BrokerState(info, BROKER_WEB_PORT, online))


class Cluster:
    """Two masters, one of them active, and some brokers."""

    def __init__(self, hub: Hub, network: Network, folder: Path, brokers: int) -> None:
        self.hub = hub
        self.catalogue = Catalogue(int(EPOCH_SECONDS * 1000))
        self.masters = [MasterServer(self, "m1"), MasterServer(self, "m2")]
        self.active = 0
        self._folder = folder
        self.brokers = {number: BrokerServer(self, number, folder / str(number)) for number in range(1, brokers + 1)}
        self.away: set[int] = set()
        """Brokers that are out of the master's list."""
        for master in self.masters:
            network.servers[f"{master.host}:{MASTER_PORT}"] = network.webs[f"{master.host}:{MASTER_WEB_PORT}"] = master
        for broker in self.brokers.values():
            network.servers[f"{broker.host}:{BROKER_PORT}"] = network.webs[f"{broker.host}:{BROKER_WEB_PORT}"] = broker
            broker.start()
        self.masters[0].start(standby=False)
        self.masters[1].start(standby=True)
        self._tick()

    @property
    def addresses(self) -> str:
        return ",".join(f"{master.host}:{MASTER_PORT}" for master in self.masters)

    def fail_over(self) -> None:
        """The active master dies; the other one takes over and knows no client."""
        self.masters[self.active].kill()
        self.active = 1 - self.active
        other = self.masters[self.active]
        if other.machine is None:
            other.start(standby=False)
        other.machine.faults.standby = False  # type: ignore[union-attr]
        self.catalogue.renew_versions(other.now_ms())

    def restart_master(self) -> None:
        master = self.masters[self.active]
        master.kill()
        self.catalogue.renew_versions(master.now_ms())
        master.start(standby=False)

    def start_missing(self) -> None:
        """Start whatever is down."""
        for number, master in enumerate(self.masters):
            if master.machine is None:
                master.start(standby=number != self.active)
        for broker in self.brokers.values():
            if broker.machine is None:
                broker.start()

    def put_topic(self, topic: TopicConfig) -> None:
        self.catalogue.put_topic(topic)

    def remove_topic(self, name: str) -> None:
        self.catalogue.remove_topic(name)
        for broker in self.brokers.values():
            broker.forget_topic(name)

    def close(self) -> None:
        for broker in self.brokers.values():
            broker.kill()

    def _tick(self) -> None:
        for master in self.masters:
            master.tick()
        for broker in self.brokers.values():
            broker.tick()
        self.hub.at(TICK_SECONDS, self._tick)
