"""A complete TubeMQ in this process: one master and some brokers, on a thread of their own."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Self, TypeVar

from embedded_tubemq.broker.broker import Broker
from embedded_tubemq.common.catalogue import Catalogue, ServerSettings, TopicConfig
from embedded_tubemq.common.refusal import Faults
from embedded_tubemq.net.server import LoopThread
from embedded_tubemq.nodes import BrokerNode, MasterNode, Ports
from embedded_tubemq.storage.layout import read_json, write_atomically
from embedded_tubemq.storage.store import Appended, NewMessage, Store
from tubeclient.errors import ConfigurationError
from tubeclient.keys import MAX_STORE_PARTITIONS, StoreBounds, joined_address

T = TypeVar("T")

DEFAULT_TOKEN = "embedded"  # noqa: S105 - of a server for tests; its documentation shows it
"""Default confModAuthToken, which HTTP calls need for changes."""

_TICK_SECONDS = 1.0
_LOAD_BATCH = 5000


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class EmbeddedTubeMQ:
    """TubeMQ in one process. Start it, use its addresses with any TubeMQ client, and stop it.

    It is also a context manager. Methods may be called from any thread; each takes at most 30 s. Times are in ms.

    Args:
        data_dir: The folder that keeps topics, messages and groups' offsets for the next start.
        brokers: How many brokers there are. They have the ids 1 to `brokers`.
        master_port: 0 lets the system choose a port at the first start of this object. It stays the same when the
            object starts again. The same holds for the other ports.
        broker_port: Broker n listens on `broker_port + n - 1`.
        token: The confModAuthToken that HTTP calls need for changes.
        users: Names to passwords. With them, clients must sign their requests.
        tls: A context for servers. With it, there are also ports for TLS.
        check_visit_token: Brokers require the master's token.
        lease_ms: How long a client may be silent.

    Raises:
        ConfigurationError: An argument is wrong.
    """

    def __init__(
        self,
        data_dir: str | os.PathLike[str],
        topics: Iterable[TopicConfig] = (),
        brokers: int = 1,
        *,
        host: str = "127.0.0.1",
        master_port: int = 0,
        master_web_port: int = 0,
        broker_port: int = 0,
        token: str = DEFAULT_TOKEN,
        users: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        check_visit_token: bool = False,
        lease_ms: int = 30_000,
        clock: Callable[[], int] = _now_ms,
    ) -> None:
        if brokers < 1:
            raise ConfigurationError(f"a cluster has at least one broker, not {brokers}")
        for port in (master_port, master_web_port, broker_port and broker_port + brokers - 1):
            if not 0 <= port < 65536:  # the system would take it modulo 65536
                raise ConfigurationError(f"port {port} is not from 0 to 65535")
        self.data_dir = Path(data_dir)
        self._topics_path = self.data_dir / "topics.json"
        self._wanted_topics = list(topics)
        self._clock = clock
        self._catalogue = Catalogue(clock())
        settings = ServerSettings(lease_ms, dict(users or {}), check_visit_token)
        ports = Ports(host, master_port, master_web_port, tls)
        self._master = MasterNode(ports, self._catalogue, settings, clock, self._put, token)

        def make_broker(broker_id: int) -> BrokerNode:
            ports = Ports(host, broker_port and broker_port + broker_id - 1, 0, tls)
            folder = self.data_dir / f"broker-{broker_id}"
            return BrokerNode(broker_id, ports, folder, self._catalogue, settings, clock)

        self._make_broker = make_broker
        self._brokers = {broker_id: make_broker(broker_id) for broker_id in range(1, brokers + 1)}
        self._running_thread: LoopThread | None = None
        self._ticker: asyncio.Task[None] | None = None
        self._lock_fd = -1

    # Life

    def start(self) -> Self:
        """Start everything. Returns once all ports answer.

        Raises:
            ConfigurationError: Another embedded TubeMQ uses the folder.
        """
        if self._running_thread is not None:
            return self
        self._take_data_dir()
        self._running_thread = LoopThread("embedded-tubemq")
        try:
            self._thread.run(self._start_all())
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop everything cleanly: commit what groups have in flight, close all sockets."""
        if self._running_thread is None:
            return
        try:
            self._thread.run(self._stop_all())
        finally:
            self._thread.stop()
            self._running_thread = None
            os.close(self._lock_fd)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # Where it is

    @property
    def master_address(self) -> str:
        """The master's "host:port"."""
        return joined_address(self._master.ports.host, self._master.ports.port)

    @property
    def master_tls_address(self) -> str:
        """The master's "host:port" for TLS."""
        return joined_address(self._master.ports.host, self._master.ports.tls_port)

    @property
    def master_web_port(self) -> int:
        """The port of the master's HTTP interface."""
        return self._master.ports.web_port

    @property
    def broker_ids(self) -> list[int]:
        """The ids of all brokers, including stopped ones."""
        return sorted(self._brokers)

    @property
    def broker_addresses(self) -> dict[int, str]:
        """The "host:port" of each broker."""
        return {number: joined_address(node.ports.host, node.ports.port) for number, node in self._brokers.items()}

    @property
    def broker_tls_addresses(self) -> dict[int, str]:
        """The "host:port" of each broker for TLS."""
        return {number: joined_address(node.ports.host, node.ports.tls_port) for number, node in self._brokers.items()}

    @property
    def broker_web_ports(self) -> dict[int, int]:
        """The port of each broker's HTTP interface."""
        return {broker_id: node.ports.web_port for broker_id, node in self._brokers.items()}

    # Faults

    @property
    def master_faults(self) -> Faults:
        """The master's switches."""
        return self._master.faults

    def broker_faults(self, broker_id: int = 1) -> Faults:
        """Return a broker's switches. They outlive its stops."""
        return self._node(broker_id).faults

    # Topics

    def create_topic(self, topic: TopicConfig) -> None:
        """Create a topic on all brokers.

        Raises:
            ConfigurationError: The topic exists already.
        """

        def create() -> None:
            if self._catalogue.topic(topic.name) is not None:
                raise ConfigurationError(f"topic {topic.name} already exists")
            self._put(topic)

        self._thread.call(create)

    def grow_topic(self, name: str, *, stores: int | None = None, partitions: int | None = None) -> None:
        """Give a topic more stores, or more partitions per store.

        Raises:
            ConfigurationError: There is no such topic, or it would shrink.
        """

        def grow() -> None:
            self._catalogue.grow_topic(name, stores, partitions)
            self._save_topics()

        self._thread.call(grow)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and its messages. Groups keep their offsets."""

        def delete() -> None:
            self._catalogue.remove_topic(name)
            for node in self._brokers.values():
                node.forget_topic(name)
            self._save_topics()

        self._thread.call(delete)

    # Brokers and master

    def stop_broker(self, broker_id: int = 1, *, clean: bool = True) -> None:
        """Stop one broker.

        Args:
            clean: False is a crash. The broker does not commit what is in flight, offsets fall back by up to a second,
                and the master is not told.
        """
        self._thread.run(self._node(broker_id).stop(clean=clean))

    def start_broker(self, broker_id: int = 1) -> None:
        """Start a stopped broker on its former ports. Its leases are gone; messages and offsets are kept."""
        self._thread.run(self._node(broker_id).start())

    def add_broker(self) -> int:
        """Start another broker with all topics. Returns its id, one above the largest."""
        node = self._make_broker(max(self._brokers, default=0) + 1)

        async def start() -> None:
            await node.start()
            self._brokers[node.broker_id] = node

        self._thread.run(start())
        return node.broker_id

    def remove_broker(self, broker_id: int) -> None:
        """Stop a broker and remove it from the cluster. The master no longer lists it."""
        self.stop_broker(broker_id)

        def forget() -> None:
            self._catalogue.remove_broker(broker_id)
            self._brokers.pop(broker_id).ports.give_up()

        self._thread.call(forget)

    def restart_master(self) -> None:
        """Restart the master on its former ports. It forgets all clients, and its versions are new."""

        async def restart() -> None:
            await self._master.stop()
            self._catalogue.renew_versions(self._clock())
            await self._master.start()

        self._thread.run(restart())

    # Messages

    def load(self, topic: str, messages: Iterable[NewMessage], *, broker_id: int = 1) -> list[Appended]:
        """Append messages without a client, much faster than sending them. Keeps the order within each store."""
        appended: list[Appended] = []
        rest = iter(messages)
        while batch := list(islice(rest, _LOAD_BATCH)):
            appended += self._thread.call(partial(self._append, topic, batch, broker_id))
        return appended

    def expire(self, topic: str, up_to_offset: int, *, store_id: int = 0, broker_id: int = 1) -> None:
        """Delete everything below an offset (bytes of the index), as retention does."""
        self._thread.call(lambda: self._store(topic, store_id, broker_id).expire(up_to_offset))

    def expire_data(self, topic: str, up_to_offset: int, *, store_id: int = 0, broker_id: int = 1) -> None:
        """Delete the messages below an offset but keep their index entries, as retention on TubeMQ's brokers does."""
        self._thread.call(lambda: self._store(topic, store_id, broker_id).expire_data(up_to_offset))

    def damage(self, topic: str, offset: int, *, byte: int = -1, store_id: int = 0, broker_id: int = 1) -> None:
        """Change one byte of the payload of the message at an offset. Its checksum is wrong from then on."""
        self._thread.call(lambda: self._store(topic, store_id, broker_id).damage(offset, byte=byte))

    def bounds(self, topic: str, *, store_id: int = 0, broker_id: int = 1) -> StoreBounds:
        """Return a store's bounds."""
        return self._thread.call(lambda: self._store(topic, store_id, broker_id).bounds)

    def inspect(self, inspector: Callable[[Broker], T], *, broker_id: int = 1) -> T:
        """Call `inspector` with a running broker's state machine, on its thread. Returns what it returns."""
        return self._thread.call(lambda: inspector(self._running(broker_id)))

    # Inside

    @property
    def _thread(self) -> LoopThread:
        if self._running_thread is None:
            raise RuntimeError("the embedded TubeMQ is not running; start() it first")
        return self._running_thread

    async def _start_all(self) -> None:
        remedy = "Remove it and create the topics again, with the same stores and partitions: their messages are kept"
        for row in read_json(self._topics_path, remedy) or []:
            self._catalogue.put_topic(TopicConfig(**row))
        for topic in self._wanted_topics:
            self._put(topic)
        for node in self._brokers.values():
            await node.start()
        await self._master.start()
        self._ticker = asyncio.get_running_loop().create_task(self._tick_forever())

    async def _stop_all(self) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
        await self._master.stop()
        for broker in self._brokers.values():
            await broker.stop()
        for ports in (self._master.ports, *(broker.ports for broker in self._brokers.values())):
            ports.give_up()

    async def _tick_forever(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            if self._master.machine is not None:
                self._master.machine.tick(self._clock())
            for node in self._brokers.values():
                node.tick()

    def _take_data_dir(self) -> None:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self._lock_fd = os.open(self.data_dir / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock_fd)
            raise ConfigurationError(
                f"another embedded TubeMQ uses {self.data_dir}; stop it or choose another folder"
            ) from error

    def _put(self, topic: TopicConfig) -> None:
        self._catalogue.put_topic(topic)
        self._save_topics()

    def _save_topics(self) -> None:
        rows = [asdict(topic) for topic in self._catalogue.topics()]
        write_atomically(self._topics_path, json.dumps(rows, indent=1).encode())

    def _append(self, topic: str, batch: list[NewMessage], broker_id: int) -> list[Appended]:
        return self._running(broker_id).stores.append_all(topic, batch, self._clock())

    def _store(self, topic: str, store_id: int, broker_id: int) -> Store:
        config = self._catalogue.topic(topic)
        if config is None or not config.has_partition(store_id * MAX_STORE_PARTITIONS):
            raise ConfigurationError(f"topic {topic} has no store {store_id}")
        return self._running(broker_id).stores.get(topic, store_id)

    def _running(self, broker_id: int) -> Broker:
        machine = self._node(broker_id).machine
        if machine is None:
            raise ConfigurationError(f"broker {broker_id} is stopped")
        return machine

    def _node(self, broker_id: int) -> BrokerNode:
        if broker_id not in self._brokers:
            raise ConfigurationError(f"there is no broker {broker_id}; this cluster has {self.broker_ids}")
        return self._brokers[broker_id]
