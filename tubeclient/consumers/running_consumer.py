"""What a consumer runs on. It does not know the consumer, so that its threads let a forgotten one be collected."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from functools import partial
from time import monotonic
from typing import TypeVar

from tubeclient.consumers.group import GroupMembership
from tubeclient.errors import ClientClosed, ConfigurationError, TubeError
from tubeclient.flows.effects import Flow
from tubeclient.flows.fetch import Fetcher
from tubeclient.flows.holding import BrokerLine
from tubeclient.flows.leases import keep_leases
from tubeclient.flows.message_pack import Position
from tubeclient.flows.read_plan import ReadPlan
from tubeclient.flows.registrar import CHANGED, Registrar
from tubeclient.keys import PartitionKey, rows_behind_by_store
from tubeclient.metadata import ClusterView
from tubeclient.net.forgotten import Watch, weakly
from tubeclient.net.pool import ConnectionPool
from tubeclient.net.runner import FlowRunner, Monitor
from tubeclient.net.waiting import Alarm, OneThread
from tubeclient.settings import ClientSettings

_JOIN_SECONDS = 15.0

T = TypeVar("T")


class Running:
    """A membership, the partitions, a thread for the leases at each broker, and perhaps one that balances.

    `on_event`, a bound method of the consumer, gets what flows emit.
    """

    def __init__(
        self,
        settings: ClientSettings,
        membership: GroupMembership,
        plan: ReadPlan,
        on_event: Callable[[object], None],
    ) -> None:
        self.membership = membership
        self.registrar = Registrar(plan, random.Random())
        self.fetcher = Fetcher(self.registrar)
        self.begun = self.closed = False
        self.balancing: tuple[Alarm, OneThread] | None = None
        self._on_event = weakly(on_event)
        self._monitor = Monitor()
        self._pool = ConnectionPool(settings)
        self._runner = FlowRunner(self._pool, self._monitor)
        self._keepers: dict[int, OneThread] = {}
        self._lock = threading.RLock()  # a callback of `end` may call `end`
        self._over = False

    def begin(self, occupied_timeout_ms: float, watch: Watch) -> None:
        """Join the group, unless already done. If that fails, this is closed for good."""
        with self._lock:
            self._check_open()
            if self.begun:
                return
            try:
                self.membership.join(occupied_timeout_ms)
                watch.begin()
                self.begun = True
            except BaseException:
                self.closed = True
                watch.end()
                self._close()
                raise

    def end(self, wait_ms: float) -> None:
        """Release all partitions, leave the group and end all threads; ends a `begin` that waits for its place. To be
        called again if it was interrupted."""
        self.closed = True
        if not self.begun:
            self._close()
        with self._lock:
            if self.begun and not self._over:
                self._give_back(wait_ms)
            self._over = True

    def live(self) -> Running:
        """ClientClosed after the end, ConfigurationError before the beginning."""
        self._check_open()
        return self.started()

    def started(self) -> Running:
        """ConfigurationError before the beginning. Callbacks of the end may confirm packs."""
        if not self.begun:
            raise ConfigurationError("this consumer was not started; call start(), or use it in a with statement")
        return self

    def _check_open(self) -> None:
        if self.closed:
            raise ClientClosed("this consumer is closed")

    def run(self, flow: Flow[T]) -> T:
        """Run a flow on this thread."""
        return self._runner.run(self.registrar.guarded(flow), self._take)

    def locked(self, read: Callable[[], T]) -> T:
        """What `read` finds while no flow runs."""
        with self._monitor.lock:
            return read()

    def registered(self) -> list[PartitionKey]:
        """The held partitions, sorted."""
        return self.locked(self.registrar.holdings.assigned)

    def positions(self) -> dict[PartitionKey, Position]:
        """How far each held partition was read."""
        owned = self.registrar.holdings
        return self.locked(lambda: {key: owned.by_key[key].position for key in owned.assigned()})

    def report(self) -> None:
        """Report the held partitions to the master with the next heartbeat."""
        if not self.closed:
            self.membership.report({self.membership.node_ids[0]: self.registered()})

    def follow(self, view: ClusterView) -> None:
        """Take the brokers' current addresses from the master."""
        for broker_id, line in list(self.registrar.holdings.lines.items()):
            line.info = view.brokers.get(broker_id, line.info)

    def fail(self, error: TubeError) -> None:
        """All calls raise this error from now on."""
        self.registrar.failure = error
        self._monitor.notify(CHANGED)

    def _take(self, event: object) -> None:
        if isinstance(event, BrokerLine):
            keeper = partial(self._runner.run, keep_leases(self.registrar, event), self._take)
            name = f"tubeclient-lease-{event.info.broker_id}"
            self._keepers.setdefault(event.info.broker_id, OneThread(keeper, name)).ensure()
        else:
            self._on_event(event)

    def _give_back(self, wait_ms: float) -> None:
        if self.balancing is not None:
            due, balancer = self.balancing
            due.set()
            balancer.join(_JOIN_SECONDS)
        self.registrar.closed = True
        self._monitor.notify(CHANGED)
        deadline = monotonic() + wait_ms / 1000
        try:
            for key in self.locked(lambda: sorted(self.registrar.holdings.by_key)):
                left_ms = max(0.0, (deadline - monotonic()) * 1000)
                self.run(self.registrar.disconnect(key, wait_ms=left_ms))
        finally:
            for line in list(self.registrar.holdings.lines.values()):
                self._monitor.notify(line.signal)
            self._close()
        for keeper in list(self._keepers.values()):
            keeper.join(_JOIN_SECONDS)

    def _close(self) -> None:
        self.membership.close()
        self._pool.close()


def rows_behind_by_topic(positions: Mapping[PartitionKey, Position]) -> dict[str, int]:
    """How many rows are not confirmed yet, at most."""
    ends = {key: at.end for key, at in positions.items()}
    behind: dict[str, int] = {}
    for store, rows in rows_behind_by_store(ends, {key: at.confirmed for key, at in positions.items()}).items():
        behind[store.topic] = behind.get(store.topic, 0) + rows
    return behind
