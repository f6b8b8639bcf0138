"""What a consumer consists of, from its start to its end: a membership, registrations, threads that keep leases."""

from __future__ import annotations

import logging
import random
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any, Self, TypedDict, TypeVar

from tubeclient.admin import Admin
from tubeclient.errors import ClientClosed, ConfigurationError, TubeError
from tubeclient.flows.consume import Consumption, Unconfirmed
from tubeclient.flows.effects import Flow
from tubeclient.flows.fetch import Expired
from tubeclient.flows.keep_leases import keep_leases
from tubeclient.flows.master import GroupOrders
from tubeclient.flows.registrar import CHANGED, ReadPlan, StartFrom, Trouble
from tubeclient.flows.registrations import Assigned, Closed, Lost, Registrations, Revoking
from tubeclient.group import GroupMembership
from tubeclient.identity import names_this_process, new_client_id
from tubeclient.keys import PartitionKey
from tubeclient.metadata import ClusterView
from tubeclient.names import group_name, reader_groups_of, why_no_group
from tubeclient.net.forgotten import Watch, alive, weakly
from tubeclient.net.fork import ProcessBound
from tubeclient.net.pool import ConnectionPool
from tubeclient.net.runner import FlowRunner, Monitor
from tubeclient.net.waiting import Alarm, OneThread
from tubeclient.settings import ClientSettings
from tubeclient.subscription import Topics, matching_topics, read_topics

__all__ = ["ConsumerBase", "ConsumerOptions", "Running"]

_log = logging.getLogger(__name__)

_JOIN_SECONDS = 15.0
_TELL_SECONDS = 30.0
"""Of a broker in trouble a consumer's log says so at most that often."""
_LOOK_SECONDS = 1.0
"""So long after a look at the layout no further one is made for partitions that are closed; there may be thousands."""

T = TypeVar("T")


class ConsumerOptions(TypedDict, total=False):
    """What both kinds of consumers take by name; see ClientBalanceConsumer."""

    start_from: StartFrom
    prefetch: int
    confirm_timeout_ms: int
    fail_on_data_loss: bool
    metadata_interval_ms: int
    on_assigned: Callable[[PartitionKey, int], None] | None
    on_revoked: Callable[[PartitionKey], None] | None
    on_lost: Callable[[PartitionKey, TubeError], None] | None


@dataclass(frozen=True)
class Running:
    """What a started consumer consists of."""

    plan: ReadPlan
    membership: GroupMembership
    registrations: Registrations
    consumption: Consumption
    pool: ConnectionPool
    runner: FlowRunner
    monitor: Monitor
    threads: list[threading.Thread] = field(default_factory=list)
    balancing: list[tuple[Alarm, OneThread]] = field(default_factory=list)

    def run(self, flow: Flow[T], handle: Handler) -> T:
        """Run a flow on this thread, and hand on what it emits."""
        steps = self.runner.iterate(flow)
        while True:
            try:
                event = next(steps)
            except StopIteration as stop:
                result: T = stop.value
                return result
            handle(self, event)

    def spawn(self, name: str, flow: Flow[None], handle: Handler, at_end: Callable[[], None] | None = None) -> None:
        """Run a flow on a thread of its own; `at_end` is called where it fails."""
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

    def give_back(self, wait_ms: float, handle: Handler) -> None:
        """Give all partitions back, leave the group and end all threads. May be called again."""
        for due, balancer in self.balancing:
            due.set()
            balancer.join(_JOIN_SECONDS)
        self.registrations.closed = True
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
"""Does what an event of a consumer's flows asks for."""


def _drop(running: Running, event: object) -> None:
    """For a consumer that nobody has any more."""


class ConsumerBase(ProcessBound):
    """Starts and ends a consumer, and runs its flows for the calls of ClientBalanceConsumer."""

    def __init__(
        self,
        settings: ClientSettings,
        consumer_group: str,
        topics: Topics,
        *,
        source_count: int = -1,
        node_id: int = -1,
        start_from: StartFrom = "latest",
        prefetch: int = 2,
        confirm_timeout_ms: int = 60_000,
        fail_on_data_loss: bool = True,
        metadata_interval_ms: int = 10_000,
        on_assigned: Callable[[PartitionKey, int], None] | None = None,
        on_revoked: Callable[[PartitionKey], None] | None = None,
        on_lost: Callable[[PartitionKey, TubeError], None] | None = None,
    ) -> None:
        super().__init__()
        if prefetch < 0 or confirm_timeout_ms < 1:
            raise ConfigurationError(
                "prefetch must be 0 or more and confirm_timeout_ms 1 or more; "
                f"they are {prefetch} and {confirm_timeout_ms}"
            )
        if start_from not in ("earliest", "latest", "always_latest"):
            raise ConfigurationError(f"start_from must be earliest, latest or always_latest, not {start_from!r}")
        consumer_group = group_name(consumer_group)
        why = why_no_group(consumer_group)
        if (
            why is not None
        ):  # not an error: such groups may be older, and are harmed only where the other one is read as
            _log.warning("consumer_group is %s, %s", consumer_group, why)
        self._settings = settings
        self._group = consumer_group
        self._source_count, self._node_id = source_count, node_id
        self._pattern, self._filters = read_topics(topics)
        self._metadata_interval_ms = metadata_interval_ms
        self._start_from: StartFrom = start_from
        self._prefetch = prefetch
        self._confirm_timeout_ms = confirm_timeout_ms
        self._fail_on_data_loss = fail_on_data_loss
        self._callbacks: dict[type, Callable[[Any], None]] = {}
        if on_assigned is not None:
            self._callbacks[Assigned] = lambda event: on_assigned(event.partition, event.offset)
        if on_revoked is not None:
            self._callbacks[Revoking] = lambda event: on_revoked(event.partition)
        if on_lost is not None:
            self._callbacks[Lost] = lambda event: on_lost(event.partition, event.error)
        self._monitor = Monitor()
        self._lifecycle = threading.Lock()
        self._running: Running | None = None
        self._closed = False
        self._interrupted = False
        self._watch: Watch | None = None
        self._orders = GroupOrders()
        self._next_look = 0.0
        self._next_telling: dict[int, float] = {}

    def start(self, *, patience_ms: float = 0) -> Self:
        """Register at the master; returns this consumer. `with` does it too.

        A run of the same node that died is believed alive for 30 s: 429 and 430 are tried again for `patience_ms`.
        Raises what the master refuses with (TopicNotDeployed, GroupConflict, NodeIdConflict, GroupForbidden, ...) or
        ConnectError naming the masters that were tried.
        """
        self.check_process()
        with self._lifecycle:
            if self._closed:
                raise ClientClosed("this consumer is closed")
            if self._running is None:
                what = f"a {type(self).__name__} of consumerGroup {self._group}"
                if self._pattern is not None:
                    self._filters = dict.fromkeys(self._names_now(self._pattern), frozenset())
                running = self._build()
                try:
                    running.membership.join(patience_ms)
                    if alive(what):
                        _log.warning("this process has %s already, which is held: they share its partitions", what)
                    self._watch = Watch(self, what, partial(running.give_back, 0, _drop))
                    self._watch.begin()
                    self._running = running
                except BaseException:
                    if self._watch is not None:
                        self._watch.end()
                    running.close()
                    raise
                running.consumption.orders = self._orders
        return self

    def close(self, *, wait_ms: float = 0) -> None:
        """Give all partitions back, waiting up to `wait_ms` for packs that are out, and leave the group.

        `on_revoked` is called for each partition before; unconfirmed packs are rolled back. No thread is left.
        """
        if self.inherited:
            return
        with self._lifecycle:
            if self._closed and not self._interrupted:
                return
            self._closed, self._interrupted = True, False
        if self._running is not None:
            try:
                self._running.give_back(wait_ms, self._handle)
            except BaseException:
                self._interrupted = True  # then it may be called again
                raise
        if self._watch is not None:
            self._watch.end()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _live(self) -> Running:
        self.check_process()
        if self._closed:
            raise ClientClosed("this consumer is closed")
        return self._started()

    def _started(self) -> Running:
        """Closed or not: what was handed out before may be confirmed in its callbacks."""
        self.check_process()
        if self._running is None:
            raise ConfigurationError("this consumer was not started; call start(), or use it in a with statement")
        return self._running

    def _names_now(self, pattern: re.Pattern[str]) -> list[str]:
        return matching_topics(pattern, Admin(self._settings).topic_names())

    def _build(self) -> Running:
        membership = GroupMembership(
            self._settings,
            self._group,
            list(self._filters),
            self._source_count,
            filters=self._filters,
            refresh_interval_ms=self._metadata_interval_ms,
            node_ids=[self._node_id],
            on_orders=weakly(self._take_orders),
            on_view=weakly(self._take_view),
            on_forgotten=weakly(self._was_forgotten),
            on_end=weakly(self._membership_ended),
        )
        plan = ReadPlan(
            group=self._group,
            client_id=membership.client_ids[0],
            filters=self._filters,
            start_from=self._start_from,
            prefetch=self._prefetch,
            confirm_timeout_ms=self._confirm_timeout_ms,
            fail_on_data_loss=self._fail_on_data_loss,
            authority=membership.authority,
            reader_groups=reader_groups_of(self._group),
            new_client_id=partial(new_client_id, self._group, "look"),
            names_this_process=names_this_process,
        )
        registrations = Registrations(plan, random.Random())
        pool = ConnectionPool(self._settings)
        runner = FlowRunner(pool, self._monitor)
        return Running(plan, membership, registrations, Consumption(registrations), pool, runner, self._monitor)

    def _run(self, flow: Flow[T]) -> T:
        """Run a flow on this thread, and do what it emits."""
        running = self._running
        assert running is not None
        return running.run(flow, self._handle)

    def _handle(self, running: Running, event: object) -> None:
        if isinstance(event, Assigned):
            self._keep_leases(running, event.partition)
        elif isinstance(event, Expired):
            _log.warning("expired before they were read: %s", event.lost)
        elif isinstance(event, Unconfirmed):
            _log.warning("%r could not be confirmed: %s", event.delivery, event.error)
        elif isinstance(event, Trouble):
            self._tell(event)
        elif isinstance(event, Closed):
            self._look(running)
        elif isinstance(event, Lost):
            _log.warning("partition %s is lost: %s", event.partition, event.error)
            self._report()
        callback = self._callbacks.get(type(event))
        if callback is not None:
            try:
                callback(event)
            except Exception:
                _log.exception("a callback for %r failed", event)

    def _tell(self, event: Trouble) -> None:
        """It is tried again several times a second, and what is tried fails in the same way as a rule."""
        now = monotonic()
        if now >= self._next_telling.get(event.broker.broker_id, 0.0):
            self._next_telling[event.broker.broker_id] = now + _TELL_SECONDS
            _log.warning("partitions at broker %s wait, it is tried again: %s", event.broker, event.error)

    def _look(self, running: Running) -> None:
        """A broker contradicts the layout that is known; each further refusal comes here again."""
        now = monotonic()
        if now >= self._next_look:
            self._next_look = now + _LOOK_SECONDS
            running.membership.look()

    def _report(self) -> None:
        """Tell the master, with the next heartbeat, which partitions are held."""
        running = self._running
        if running is not None and not self._closed:
            with self._monitor.lock:
                held = running.registrations.holdings.registered()
            running.membership.report({running.membership.node_ids[0]: held})

    def _keep_leases(self, running: Running, key: PartitionKey) -> None:
        with self._monitor.lock:
            line = running.registrations.holdings.lines[key.broker_id]
            if line.kept:
                return
            line.kept = True
        try:
            running.spawn(
                f"tubeclient-lease-{line.info.broker_id}",
                keep_leases(running.registrations, line),
                weakly(self._handle),
                partial(setattr, line, "kept", False),
            )
        except BaseException:
            line.kept = False
            raise

    def _take_orders(self, orders: GroupOrders) -> None:
        before, self._orders = self._orders, orders
        running = self._running
        if running is not None:  # else `start` hands on those of the registration, of which none is to jump
            running.consumption.orders = orders
            if orders.jump_id != before.jump_id:
                _log.info("the master wants consumerGroup %s to go on with the latest messages", self._group)
                running.spawn("tubeclient-jump", running.registrations.jump_to_latest(), weakly(self._handle))

    def _take_view(self, view: ClusterView) -> None:
        if self._running is not None:
            with self._monitor.lock:
                self._running.registrations.follow(view)

    def _was_forgotten(self) -> None:
        """The master does not know this client any more, which is about to register again; brokers do know it."""

    def _membership_ended(self) -> None:
        """Partitions go on being read; whoever asks for the layout is told why there is none any more."""
