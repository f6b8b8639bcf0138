"""One master and one broker with their sockets and files, around the state machines.

Everything here runs on one asyncio loop.
"""

from __future__ import annotations

import json
import logging
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from embedded_tubemq.broker.admin import BrokerAdmin
from embedded_tubemq.broker.broker import Broker, BrokerSettings
from embedded_tubemq.broker.offsets import GroupOffsets
from embedded_tubemq.common.catalogue import BrokerState, Catalogue
from embedded_tubemq.common.faults import Faults
from embedded_tubemq.master.admin import MasterAdmin, TopicKeeper
from embedded_tubemq.master.master import Master, MasterSettings
from embedded_tubemq.net.http_api import HttpServer
from embedded_tubemq.net.rpc import Endpoint
from embedded_tubemq.net.server import TcpServer, hold
from embedded_tubemq.net.tls import ServerTls
from embedded_tubemq.storage.files import write_atomically
from embedded_tubemq.storage.stores import StoreDirectory
from tubeclient.keys import BrokerInfo

__all__ = ["BrokerNode", "MasterNode"]

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class MasterNode:
    """A master that can be stopped and started. A restart keeps its ports and forgets its clients."""

    host: str
    catalogue: Catalogue
    settings: MasterSettings
    clock: Callable[[], int]
    topics: TopicKeeper
    token: str = field(repr=False)
    port: int = 0
    web_port: int = 0
    tls: ServerTls | None = None
    tls_port: int = 0
    faults: Faults = field(default_factory=Faults)
    machine: Master | None = None
    _servers: list[TcpServer | HttpServer] = field(default_factory=list)

    async def start(self) -> None:
        """Listen on all ports."""
        self.machine = Master(self.catalogue, self.settings, self.faults)
        admin = MasterAdmin(self.machine, self.topics, self.token, self.clock)
        endpoint = Endpoint(self.machine, self.clock)
        tcp, http = TcpServer(endpoint, "master"), HttpServer(admin.call)
        self._servers = [tcp, http]
        self.port = await tcp.start(self.host, self.port)
        self.web_port = await http.start(self.host, self.web_port)
        if self.tls is not None:
            over_tls = TcpServer(endpoint, "master over TLS", self.tls.context())
            self._servers.append(over_tls)
            self.tls_port = await over_tls.start(self.host, self.tls_port)

    async def stop(self) -> None:
        """Cut all connections."""
        self.machine = None
        servers, self._servers = self._servers, []
        for server in servers:
            await server.stop()


@dataclass(slots=True)
class BrokerNode:
    """A broker that can be stopped, killed and started. It keeps its ports, its messages and the groups' offsets."""

    broker_id: int
    host: str
    folder: Path
    catalogue: Catalogue
    settings: BrokerSettings
    clock: Callable[[], int]
    port: int = 0
    web_port: int = 0
    tls: ServerTls | None = None
    tls_port: int = 0
    faults: Faults = field(default_factory=Faults)
    machine: Broker | None = None
    _servers: list[TcpServer | HttpServer] = field(default_factory=list)
    _held: list[socket.socket] = field(default_factory=list)
    """Of a stopped broker: they keep its ports."""

    async def start(self) -> None:
        """Open the files, listen on all ports, and report to the master."""
        if self.machine is not None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self._offsets_path
        offsets = GroupOffsets.load(json.loads(path.read_text())) if path.exists() else GroupOffsets()
        stores = StoreDirectory(self._stores_folder, self.catalogue, self.clock)
        self.machine = Broker(self.broker_id, self.catalogue, stores, offsets, self.settings, self.faults)
        name = f"broker {self.broker_id}"
        self.give_ports_up()
        endpoint = Endpoint(self.machine, self.clock)
        tcp, http = TcpServer(endpoint, name), HttpServer(BrokerAdmin(self.machine).call)
        self._servers = [tcp, http]
        self.port = await tcp.start(self.host, self.port)
        self.web_port = await http.start(self.host, self.web_port)
        if self.tls is not None:
            over_tls = TcpServer(endpoint, f"{name} over TLS", self.tls.context())
            self._servers.append(over_tls)
            self.tls_port = await over_tls.start(self.host, self.tls_port)
        self._announce(online=True)

    async def stop(self, *, clean: bool = True) -> None:
        """Cut all connections.

        A clean stop commits what is in flight and reports to the master; otherwise offsets fall back to the last saved
        ones.
        """
        machine, servers = self.machine, self._servers
        if machine is None:
            return
        self.machine, self._servers = None, []
        for server in servers:
            await server.stop()
        holders = [hold(self.host, port) for port in (self.port, self.web_port, self.tls_port) if port]
        self._held = [holder for holder in holders if holder is not None]
        try:
            if clean:
                machine.offsets.commit_all()
                self._announce(online=False)
                self._save(machine)
        finally:
            machine.stores.close()

    def give_ports_up(self) -> None:
        """Let others have the ports of a stopped broker."""
        for holder in self._held:
            holder.close()
        self._held = []

    def forget_topic(self, topic: str) -> None:
        """Delete the files of a deleted topic, also while the broker is stopped."""
        if self.machine is not None:
            self.machine.forget_topic(topic)
        else:
            shutil.rmtree(self._stores_folder / topic, ignore_errors=True)

    def tick(self) -> None:
        """Handle leases and offsets; call it every second. Offsets that a full disk does not take are saved later."""
        if self.machine is not None:
            self.machine.tick(self.clock())
            if self.machine.offsets.changed:
                try:
                    self._save(self.machine)
                except OSError as error:
                    _LOG.error("broker %d: the groups' offsets could not be saved: %s", self.broker_id, error)

    @property
    def _stores_folder(self) -> Path:
        return self.folder / "stores"

    @property
    def _offsets_path(self) -> Path:
        return self.folder / "offsets.json"

    def _save(self, machine: Broker) -> None:
        write_atomically(self._offsets_path, json.dumps(machine.offsets.dump()).encode())
        machine.offsets.changed = False

    def _announce(self, *, online: bool) -> None:
        info = BrokerInfo(self.broker_id, self.host, self.port)
        self.catalogue.put_broker(BrokerState(info, self.web_port, online, self.tls_port))
