"""One master and one broker with their sockets and files, around the state machines.

Everything here runs on one asyncio loop.
"""

from __future__ import annotations

import json
import logging
import shutil
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from embedded_tubemq.broker.broker import Broker
from embedded_tubemq.broker.offsets import GroupOffsets
from embedded_tubemq.common.catalogue import BrokerState, Catalogue, ServerSettings, TopicConfig
from embedded_tubemq.common.refusal import Faults
from embedded_tubemq.master.master import Master
from embedded_tubemq.net.admin import BrokerAdmin, Call, MasterAdmin
from embedded_tubemq.net.server import Endpoint, HttpServer, TcpServer, bind
from embedded_tubemq.storage.layout import read_json, write_atomically
from embedded_tubemq.storage.store import StoreDirectory
from tubeclient.keys import BrokerInfo

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Ports:
    """Where a server listens: for clients, for HTTP, and perhaps for clients over TLS. It keeps its ports."""

    host: str
    port: int = 0
    web_port: int = 0
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    tls_port: int = 0
    _servers: list[TcpServer | HttpServer] = field(default_factory=list)
    _bound: list[socket.socket] = field(default_factory=list)
    """Of a stopped server: nobody else gets its ports, and connections to them are refused."""

    async def open(self, name: str, endpoint: Endpoint, web: Call) -> None:
        self.give_up()
        tcp, http = TcpServer(endpoint, name), HttpServer(web)
        self._servers = [tcp, http]
        self.port = await tcp.start(self.host, self.port)
        self.web_port = await http.start(self.host, self.web_port)
        if self.tls is not None:
            over_tls = TcpServer(endpoint, f"{name} over TLS", self.tls)
            self._servers.append(over_tls)
            self.tls_port = await over_tls.start(self.host, self.tls_port)

    async def close(self) -> None:
        """Cut all connections, and hold the ports."""
        servers, self._servers = self._servers, []
        for server in servers:
            await server.stop()
        for port in filter(None, (self.port, self.web_port, self.tls_port)):
            with suppress(OSError):  # somebody has it already
                self._bound.append(bind(self.host, port))

    def give_up(self) -> None:
        while self._bound:
            self._bound.pop().close()


@dataclass(slots=True)
class MasterNode:
    """A master that can be stopped and started. A restart keeps its ports and forgets its clients."""

    ports: Ports
    catalogue: Catalogue
    settings: ServerSettings
    clock: Callable[[], int]
    put_topic: Callable[[TopicConfig], None]
    token: str = field(repr=False)
    faults: Faults = field(default_factory=Faults)
    machine: Master | None = None

    async def start(self) -> None:
        self.machine = Master(self.catalogue, self.settings, self.faults)
        admin = MasterAdmin(self.machine, self.put_topic, self.token, self.clock)
        await self.ports.open("master", Endpoint(self.machine, self.clock), admin.call)

    async def stop(self) -> None:
        self.machine = None
        await self.ports.close()


@dataclass(slots=True)
class BrokerNode:
    """A broker that can be stopped, killed and started. It keeps its ports, its messages and the groups' offsets."""

    broker_id: int
    ports: Ports
    folder: Path
    catalogue: Catalogue
    settings: ServerSettings
    clock: Callable[[], int]
    faults: Faults = field(default_factory=Faults)
    machine: Broker | None = None

    async def start(self) -> None:
        """Open the files, listen on all ports, and report to the master."""
        if self.machine is not None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        remedy = "Remove it if the groups may start as new ones"
        offsets = GroupOffsets.load(read_json(self.folder / "offsets.json", remedy) or [])
        stores = StoreDirectory(self.folder / "stores", self.catalogue, self.clock)
        self.machine = Broker(self.broker_id, self.catalogue, stores, offsets, self.settings, self.faults)
        endpoint = Endpoint(self.machine, self.clock)
        await self.ports.open(f"broker {self.broker_id}", endpoint, BrokerAdmin(self.machine).call)
        self._announce(online=True)

    async def stop(self, *, clean: bool = True) -> None:
        """Cut all connections. A clean stop commits what is in flight and reports to the master; after another one
        offsets are those last saved."""
        machine, self.machine = self.machine, None
        if machine is None:
            return
        await self.ports.close()
        try:
            if clean:
                machine.offsets.commit_all()
                self._announce(online=False)
                self._save(machine)
        finally:
            machine.stores.close()

    def forget_topic(self, topic: str) -> None:
        """Delete the files of a deleted topic, also while the broker is stopped."""
        if self.machine is not None:
            self.machine.forget_topic(topic)
        else:
            shutil.rmtree(self.folder / "stores" / topic, ignore_errors=True)

    def tick(self) -> None:
        """Handle leases and offsets; call it every second. Offsets that a full disk does not take are saved later."""
        if self.machine is not None:
            self.machine.tick(self.clock())
            if self.machine.offsets.changed:
                try:
                    self._save(self.machine)
                except OSError as error:
                    _LOG.error("broker %d: the groups' offsets could not be saved: %s", self.broker_id, error)

    def _save(self, machine: Broker) -> None:
        write_atomically(self.folder / "offsets.json", json.dumps(machine.offsets.dump()).encode())
        machine.offsets.changed = False

    def _announce(self, *, online: bool) -> None:
        info = BrokerInfo(self.broker_id, self.ports.host, self.ports.port)
        self.catalogue.put_broker(BrokerState(info, self.ports.web_port, online, self.ports.tls_port))
