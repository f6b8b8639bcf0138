"""The parts of a started consumer: a membership, registrations, threads that keep leases and balance."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any, Self, TypeVar

from tubeclient.consumers.group import GroupMembership
from tubeclient.errors import ClientClosed, ConfigurationError
from tubeclient.flows.consume import Consumption, Unconfirmed
from tubeclient.flows.effects import Flow
from tubeclient.flows.fetch import Expired, KeptBad
from tubeclient.flows.keep_leases import keep_leases
from tubeclient.flows.read_plan import ReadPlan
from tubeclient.flows.registrar import CHANGED, Registrar, Trouble
from tubeclient.flows.registrations import Assigned, Closed, Lost, Registrations
from tubeclient.keys import PartitionKey
from tubeclient.net.forgotten import Watch, weakly
from tubeclient.net.pool import ConnectionPool
from tubeclient.net.runner import FlowRunner, Monitor
from tubeclient.net.waiting import Alarm, OneThread, call_back
from tubeclient.settings import ClientSettings

_JOIN_SECONDS = 15.0

T = TypeVar("T")


@dataclass(frozen=True)
class Running:
    """The parts of a started consumer."""

    plan: ReadPlan
    membership: GroupMembership
    registrations: Registrations
    consumption: Consumption
    pool: ConnectionPool
    runner: FlowRunner
    monitor: Monitor
    threads: list[threading.Thread] = field(default_factory=list)
    balancing: list[tuple[Alarm, OneThread]] = field(default_factory=list)

    @classmethod
    def of(cls, settings: ClientSettings, monitor: Monitor, membership: GroupMembership, plan: ReadPlan) -> Self:
        """The parts of a consumer that has not joined its group yet."""
        registrations = Registrations(Registrar(plan, random.Random()))
        pool = ConnectionPool(settings)
        runner = FlowRunner(pool, monitor)
        return cls(plan, membership, registrations, Consumption(registrations), pool, runner, monitor)

    def run(self, flow: Flow[T], handle: Handler) -> T:
        """Run a flow on this thread, and pass its emitted values to `handle`."""
        return self.runner.run(flow, partial(handle, self))

    def spawn(self, name: str, flow: Flow[None], handle: Handler, at_end: Callable[[], None] | None = None) -> None:
        """Run a flow on its own thread; `at_end` is called if it fails."""
        thread = threading.Thread(target=self._run_there, args=(flow, handle, at_end), name=name, daemon=True)
        with self.monitor.lock:
            self.threads[:] = [*(one for one in self.threads if one.is_alive()), thread]
            thread.start()

    def _run_there(self, flow: Flow[None], handle: Handler, at_end: Callable[[], None] | None) -> None:
        try:
            self.run(flow, handle)
        except BaseException:
            if at_end is not None:
                at_end()
            raise

    def registered(self) -> list[PartitionKey]:
        """The held partitions, sorted."""
        with self.monitor.lock:
            return self.registrations.holdings.registered()

    def report(self) -> None:
        """Report the held partitions to the master with the next heartbeat."""
        if not self.registrations.registrar.closed:
            self.membership.report({self.membership.node_ids[0]: self.registered()})

    def give_back(self, wait_ms: float, handle: Handler) -> None:
        """Release all partitions, leave the group and end all threads. May be called again."""
        for due, balancer in self.balancing:
            due.set()
            balancer.join(_JOIN_SECONDS)
        self.registrations.registrar.closed = True
        self.monitor.notify(CHANGED)
        deadline = monotonic() + wait_ms / 1000
        try:
            with self.monitor.lock:
                held = sorted(self.registrations.holdings.by_key)
            for key in held:
                left_ms = max(0.0, (deadline - monotonic()) * 1000)
                self.run(self.registrations.disconnect(key, wait_ms=left_ms, at_once=True), handle)
        finally:
            for line in list(self.registrations.holdings.lines.values()):
                self.monitor.notify(line.signal)
            self.close()
        for thread in self.threads:
            if thread is not threading.current_thread() and thread.is_alive():
                thread.join(_JOIN_SECONDS)

    def close(self) -> None:
        self.membership.close()
        self.pool.close()


Handler = Callable[[Running, object], None]
"""Handles an event of a consumer's flows."""


_log = logging.getLogger(__name__)


class ConsumerLife:
    """Only the consumer refers to it. `closed`: whether `end` was called."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running: Running | None = None
        self.closed = False
        self._joining: Running | None = None
        self._ending = False
        """Whether `end` was called: a `begin` that is not over yet joins no group any more."""
        self._interrupted = False
        self._watch: Watch | None = None

    def begin(self, consumer: Any, what: str, build: Callable[[], Running], patience_ms: float) -> Running:
        """Join the group with the result of `build`, unless already done; `what` names the consumer in the log."""
        with self.lock:
            if self.closed:
                raise _closed()
            if self.running is not None:
                return self.running
            running = self._joining = build()
            try:
                if self._ending:
                    raise _closed()
                running.membership.join(patience_ms)
                self._watch = Watch(what, partial(_close, weakly(consumer.close), running), consumer)
                self._watch.begin()
                self.running = running
            except BaseException:
                if self._watch is not None:
                    self._watch.end()
                running.close()
                raise
            finally:
                self._joining = None
            return running

    def end(self, wait_ms: float, handle: Handler) -> None:
        """Release everything, once. May be called again after an interrupt. Ends a `begin` that waits for its place."""
        self._ending = True
        joining = self._joining  # if there is none yet, `begin` looks at `_ending` afterwards
        if joining is not None:
            joining.membership.close()
        with self.lock:
            if self.closed and not self._interrupted:
                return
            self.closed, self._interrupted = True, False
        if self.running is not None:
            try:
                self.running.give_back(wait_ms, handle)
            except BaseException:
                self._interrupted = True
                raise
        if self._watch is not None:
            self._watch.end()

    def live(self) -> Running:
        """The running parts; ClientClosed after the close, ConfigurationError before the start."""
        if self.closed:
            raise _closed()
        return self.started()

    def started(self) -> Running:
        """The running parts, also of a closed consumer: callbacks may confirm earlier packs."""
        if self.running is None:
            raise ConfigurationError("this consumer was not started; call start(), or use it in a with statement")
        return self.running


def _closed() -> ClientClosed:
    return ClientClosed("this consumer is closed")


def _close(close: Callable[[], None], running: Running) -> None:
    """The end of a consumer that nobody closed: by its own `close`, if it is still there."""
    close()
    running.give_back(0, lambda *_: None)


_TELL_SECONDS = 30.0
"""The shortest time between two log lines about a broker in trouble."""
_LOOK_SECONDS = 1.0
"""The shortest time between two looks at the layout for closed partitions; there may be thousands."""


class ConsumerEvents:
    """Only the consumer refers to it, so threads that outlive a forgotten consumer ignore events."""

    def __init__(self) -> None:
        self._callbacks: list[tuple[type, Callable[[Any], None]]] = []
        self._next_look = 0.0
        self._next_telling: dict[int, float] = {}

    def call(self, kind: type, callback: Callable[[Any], None]) -> None:
        """Call `callback` for each event of that kind; its errors are logged."""
        self._callbacks.append((kind, callback))

    def handle(self, running: Running, event: object) -> None:
        """Handle an event."""
        if isinstance(event, Assigned):
            self._keep_leases(running, event.partition)
        elif isinstance(event, Expired):
            _log.warning("expired before they were read: %s", event.lost)
        elif isinstance(event, KeptBad):
            _log.warning(
                "partition %s, in the pack from offset %d on: %d bad messages are kept. The first has id %d: %s",
                event.partition,
                event.start,
                event.messages,
                event.first_id,
                event.first_reason,
            )
        elif isinstance(event, Unconfirmed):
            _log.warning("%r could not be confirmed: %s", event.delivery, event.error)
        elif isinstance(event, Trouble):
            self._tell(event)
        elif isinstance(event, Closed):
            self._look(running)
        elif isinstance(event, Lost):
            _log.warning("partition %s is lost: %s", event.partition, event.error)
            running.report()
        for kind, callback in self._callbacks:
            if isinstance(event, kind):
                call_back(callback, event)

    def jump(self, running: Running) -> None:
        """Continue after the last message of every partition, on a separate thread."""
        running.spawn("tubeclient-jump", running.registrations.jump_to_latest(), weakly(self.handle))

    def _tell(self, event: Trouble) -> None:
        """Tries repeat several times a second, usually with the same failure, so log rarely."""
        now = monotonic()
        if now >= self._next_telling.get(event.broker.broker_id, 0.0):
            self._next_telling[event.broker.broker_id] = now + _TELL_SECONDS
            _log.warning("partitions at broker %s wait; trying again: %s", event.broker, event.error)

    def _look(self, running: Running) -> None:
        """A broker contradicts the known layout; each further refusal calls this again."""
        now = monotonic()
        if now >= self._next_look:
            self._next_look = now + _LOOK_SECONDS
            running.membership.look()

    def _keep_leases(self, running: Running, key: PartitionKey) -> None:
        with running.monitor.lock:
            line = running.registrations.holdings.lines[key.broker_id]
            if line.kept:
                return
            line.kept = True
        try:
            running.spawn(
                f"tubeclient-lease-{line.info.broker_id}",
                keep_leases(running.registrations, line),
                weakly(self.handle),
                partial(setattr, line, "kept", False),
            )
        except BaseException:
            line.kept = False
            raise
