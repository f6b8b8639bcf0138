"""One simulated world: clock, network, servers, tables, and what was ever sent."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from embedded_tubemq.common.catalogue import TopicConfig
from embedded_tubemq.storage.store import NewMessage
from tests.offsets_store.memory import Log
from tests.simulation.hub import EPOCH_SECONDS, Hub, Process
from tests.simulation.network import Network, set_network
from tests.simulation.servers import Cluster
from tests.simulation.stand_ins import set_hub
from tests.simulation.target import BadLog, GroupLog, Row, TargetLog
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey

__all__ = ["Disk", "Sent", "World"]

_NOWHERE = -1


class Sent(NamedTuple):
    """A message, where it is, or was."""

    partition: PartitionKey
    offset: int
    value: bytes


class DiskFailure(OSError):
    """A store that gives an error."""


class Disk:
    """How slow storage is, and how often it fails, for the processes that use it."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self.on_step: Callable[[Process, str], None] = lambda *_: None
        """Called at each step, with the process that takes it."""
        self.slow = 0.0
        self.fails = 0.0

    def pause(self, what: str) -> None:
        """Let a step of storage take its time in the process that runs."""
        hub = self._hub
        hub.check()
        draw = hub.random.random
        seconds = 0.004 * draw()
        if self.slow and draw() < self.slow:
            seconds += 8.0 * draw() ** 3
        hub.sleep(seconds)
        self.on_step(hub.process, what)
        hub.pass_by()
        if self.fails and draw() < self.fails:
            raise DiskFailure(f"the storage failed at {what}")


class World:
    """What a seed's run happens in."""

    def __init__(self, seed: int, folder: Path, brokers: int, streams: int = 0) -> None:
        self.hub = Hub(seed)
        set_hub(self.hub)
        self.network = Network(self.hub)
        set_network(self.network)
        self.cluster = Cluster(self.hub, self.network, folder, brokers)
        self.disk = Disk(self.hub)
        self.table = Log()
        self.target = GroupLog(streams) if streams else TargetLog()
        self.bad = BadLog()
        self.files: dict[str, tuple[Any, ...]] = {}
        """What tasks wrote for tables, by the files' names."""
        self.sent: dict[bytes, Sent] = {}
        self.gone: set[bytes] = set()
        """Messages that their broker no longer has."""
        self.owed: dict[bytes, int] = {}
        """Those of them whose loss is to be reported, because a batch was planned past the offset given here."""
        self.positions: Callable[[], dict[PartitionKey, int]] = dict
        """How far batches of the group were planned."""
        self.in_round: dict[PartitionKey, int] = {}
        """Where the round ends that is being written, of a job of several tables."""
        self.has_begun: Callable[[], bool] = lambda: True
        """Whether anything keeps where the group began, at its earliest message."""
        self.on_task: Callable[[Sequence[Row]], None] = lambda _: None
        """Called with the rows of each attempt of a task."""
        self.story: list[str] = []
        """What happened, for whoever looks at a seed that failed."""
        self.topics: set[str] = set()
        """All that ever were."""
        self._names = 0
        self._skews: dict[str, float] = {}
        self._processes: list[Process] = []
        self._serial = 0

    def tell(self, text: str) -> None:
        self.story.append(f"{self.hub.now:9.3f} {text}")

    def process(self, name: str, host: str = "") -> Process:
        self._processes = [one for one in self._processes if not one.dead]
        self._names += 1
        process = Process(self.hub, f"{name}-{self._names}", host or name)
        process.skew_seconds = self._skews.get(process.host, 0.0)
        self._processes.append(process)
        return process

    def jump_clock(self, host: str, seconds: float) -> None:
        """Set the clock of a machine, for what runs on it and for what will."""
        self._skews[host] = self._skews.get(host, 0.0) + seconds
        for process in self._processes:
            if process.host == host:
                process.skew_seconds += seconds

    def alive(self) -> set[str]:
        """The names of the processes that are not dead."""
        return {process.name for process in self._processes if not process.dead}

    # Messages

    def put_topic(self, name: str, stores: int, partitions: int) -> None:
        self.topics.add(name)
        self.cluster.put_topic(TopicConfig(name, stores, partitions))

    def send(self, broker_id: int, topic: str, partition_id: int, *, bad: bool = False) -> None:
        """Append one message, as a broker does that acknowledges it."""
        broker = self.cluster.brokers[broker_id].machine
        config = self.cluster.catalogue.topic(topic)
        if broker is None or config is None or not config.has_partition(partition_id):
            return
        self._serial += 1
        value = b"%d:%s:%d#%d%s" % (broker_id, topic.encode(), partition_id, self._serial, b"!" if bad else b"")
        now_ms = int((EPOCH_SECONDS + self.hub.now) * 1000)
        at = broker.stores.append_all(topic, [NewMessage(partition_id, value)], now_ms)[0]
        self.sent[value] = Sent(PartitionKey(broker_id, topic, partition_id), at.index_offset, value)

    def _lose(
        self, broker_id: int, topic: str, store_id: int | None, first: int, end: int, seen_past: int | None
    ) -> None:
        """Messages from `first` to `end` are gone. A group has to see that if its position is past `seen_past`, by
        default past the message."""
        planned = self.positions()
        for value, one in self.sent.items():
            key = one.partition
            if value in self.gone or (key.broker_id, key.topic) != (broker_id, topic) or not first <= one.offset < end:
                continue
            if store_id is None or key.store.store_id == store_id:
                self.gone.add(value)
                past = one.offset if seen_past is None else seen_past
                if planned.get(key, _NOWHERE) > past:
                    self.owed[value] = past

    def lose_tail(self, broker_id: int, topic: str, store_id: int, entries: int) -> None:
        """Kill the broker; it loses the newest entries of a store."""
        server = self.cluster.brokers[broker_id]
        if server.machine is None:
            return
        store = server.store(topic, store_id)
        end = max(store.min_offset, store.max_offset - entries * INDEX_ENTRY_BYTES)
        # A tail that no batch was planned to read may go unnoticed.
        self._lose(broker_id, topic, store_id, end, 1 << 60, None)
        store.truncate(end)
        server.kill()

    def expire(self, broker_id: int, topic: str, store_id: int, share: float) -> None:
        """Retention takes a share of a store's oldest messages."""
        server = self.cluster.brokers[broker_id]
        if server.machine is None or self.cluster.catalogue.topic(topic) is None:
            return
        store = server.store(topic, store_id)
        low, high = store.bounds
        up_to = low + int((high - low) / INDEX_ENTRY_BYTES * share) * INDEX_ENTRY_BYTES
        # What expires after a position may not, unless the group will begin at the first message that is left.
        self._lose(broker_id, topic, store_id, 0, up_to, _NOWHERE if self.has_begun() else 1 << 60)
        if self.hub.random.random() < 0.5:
            store.expire(up_to)
        else:
            store.expire_data(up_to)

    def remove_topic(self, name: str) -> None:
        for broker_id in self.cluster.brokers:
            # The next topic of this name begins at 0: who is at 0 cannot tell them apart.
            self._lose(broker_id, name, None, 0, 1 << 60, 0)
        self.cluster.remove_topic(name)


class Capture(logging.Handler):
    """Passes the product's warnings on: it may report a loss there."""

    def __init__(self, told: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._told = told

    def emit(self, record: logging.LogRecord) -> None:
        self._told(record.getMessage())
