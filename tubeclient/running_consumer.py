"""The parts of a started consumer: a membership, registrations, threads that keep leases and balance."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Self, TypeVar

from tubeclient.flows.consume import Consumption
from tubeclient.flows.effects import Flow
from tubeclient.flows.read_plan import ReadPlan
from tubeclient.flows.registrar import CHANGED, Registrar
from tubeclient.flows.registrations import Registrations
from tubeclient.group import GroupMembership
from tubeclient.keys import PartitionKey
from tubeclient.net.pool import ConnectionPool
from tubeclient.net.runner import FlowRunner, Monitor
from tubeclient.net.waiting import Alarm, OneThread
from tubeclient.settings import ClientSettings

__all__ = ["Handler", "Running"]

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
