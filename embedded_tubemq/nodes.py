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
from typing import Any

from embedded_tubemq.broker.admin import BrokerAdmin
from embedded_tubemq.broker.broker import Broker, BrokerSettings
from embedded_tubemq.broker.offsets import GroupOffsets
from embedded_tubemq.common.admin import Parameters
from embedded_tubemq.common.catalogue import BrokerState, Catalogue, TopicConfig
from embedded_tubemq.common.faults import Faults
from embedded_tubemq.master.admin import MasterAdmin
from embedded_tubemq.master.master import Master, MasterSettings
from embedded_tubemq.net.http_api import HttpServer
from embedded_tubemq.net.server import Endpoint, Machine, TcpServer
from embedded_tubemq.net.tls import ServerTls
from embedded_tubemq.storage.store import write_atomically
from embedded_tubemq.storage.stores import StoreDirectory
from tubeclient.keys import BrokerInfo

__all__ = ["BrokerNode", "MasterNode", "Ports"]

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Ports:
    """Where a server listens: for clients, for HTTP, and perhaps for clients over TLS. It keeps its ports."""

    host: str
    port: int = 0
    web_port: int = 0
    tls: ServerTls | None = None
    tls_port: int = 0
    _servers: list[TcpServer | HttpServer] = field(default_factory=list)
    _held: list[socket.socket] = field(default_factory=list)
    """Of a stopped server: they keep its ports."""

    async def open(
        self, name: str, machine: Machine, web: Callable[[Parameters], dict[str, Any]], clock: Callable[[], int]
    ) -> None:
        self.give_up()
        endpoint = Endpoint(machine, clock)
        tcp, http = TcpServer(endpoint, name), HttpServer(web)
        self._servers = [tcp, http]
        self.port = await tcp.start(self.host, self.port)
        self.web_port = await http.start(self.host, self.web_port)
        if self.tls is not None:
            over_tls = TcpServer(endpoint, f"{name} over TLS", self.tls.context())
            self._servers.append(over_tls)
            self.tls_port = await over_tls.start(self.host, self.tls_port)

    async def close(self, *, hold: bool = False) -> None:
        """Cut all connections. With `hold` nobody else gets the ports, and connections to them are refused."""
        servers, self._servers = self._servers, []
        for server in servers:
            await server.stop()
        if hold:
            held = [_hold(self.host, port) for port in (self.port, self.web_port, self.tls_port) if port]
            self._held = [holder for holder in held if holder is not None]

    def give_up(self) -> None:
        for holder in self._held:
            holder.close()
        self._held = []


@dataclass(slots=True)
class MasterNode:
    """A master that can be stopped and started. A restart keeps its ports and forgets its clients."""

    ports: Ports
    catalogue: Catalogue
    settings: MasterSettings
    clock: Callable[[], int]
    put_topic: Callable[[TopicConfig], None]
    token: str = field(repr=False)
    faults: Faults = field(default_factory=Faults)
    machine: Master | None = None

    async def start(self) -> None:
        self.machine = Master(self.catalogue, self.settings, self.faults)
        admin = MasterAdmin(self.machine, self.put_topic, self.token, self.clock)
        await self.ports.open("master", self.machine, admin.call, self.clock)

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
    settings: BrokerSettings
    clock: Callable[[], int]
    faults: Faults = field(default_factory=Faults)
    machine: Broker | None = None

    async def start(self) -> None:
        """Open the files, listen on all ports, and report to the master."""
        if self.machine is not None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self._offsets_path
        offsets = GroupOffsets.load(json.loads(path.read_text())) if path.exists() else GroupOffsets()
        stores = StoreDirectory(self._stores_folder, self.catalogue, self.clock)
        self.machine = Broker(self.broker_id, self.catalogue, stores, offsets, self.settings, self.faults)
        await self.ports.open(f"broker {self.broker_id}", self.machine, BrokerAdmin(self.machine).call, self.clock)
        self._announce(online=True)

    async def stop(self, *, clean: bool = True) -> None:
        """Cut all connections.

        A clean stop commits what is in flight and reports to the master; otherwise offsets fall back to the last saved
        ones.
        """
        machine, self.machine = self.machine, None
        if machine is None:
            return
        await self.ports.close(hold=True)
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
        info = BrokerInfo(self.broker_id, self.ports.host, self.ports.port)
        self.catalogue.put_broker(BrokerState(info, self.ports.web_port, online, self.ports.tls_port))


def _hold(host: str, port: int) -> socket.socket | None:
    """A socket that has the port and does not listen. None if somebody has it already."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    holder = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Connections that were cut a moment ago still count as users of the port.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(address)
    except OSError:
        holder.close()
        return None
    return holder
