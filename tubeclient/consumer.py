"""Consuming as one client of a group that balances itself."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Any, TypedDict, TypeVar

from tubeclient._version import __version__
from tubeclient.admin import Admin
from tubeclient.errors import ClientClosed, ConfigurationError, StalePack, TubeError
from tubeclient.flows.consume import Consumption
from tubeclient.flows.effects import Flow
from tubeclient.flows.fetch import Expired
from tubeclient.flows.holdings import BrokerLine, Delivery, Position
from tubeclient.flows.keep_leases import keep_leases
from tubeclient.flows.master import GroupOrders
from tubeclient.flows.registrar import CHANGED, BootstrapOffset, ReadPlan, StartFrom
from tubeclient.flows.registrations import Assigned, Lost, Registrations, Revoking
from tubeclient.group import GroupMembership
from tubeclient.keys import PartitionKey
from tubeclient.metadata import ClusterView
from tubeclient.net.fork import ProcessBound
from tubeclient.net.pool import ConnectionPool
from tubeclient.net.runner import FlowRunner, Monitor
from tubeclient.settings import ClientSettings
from tubeclient.subscription import Topics, matching_topics, read_topics

__all__ = ["ClientBalanceConsumer", "ConsumerOptions", "Running"]

_log = logging.getLogger(__name__)

_JOIN_SECONDS = 15.0
_STEP_MS = 250.0

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


class ClientBalanceConsumer(ProcessBound):
    """One client of `consumer_group`; which partitions it reads, and from where, is said by `connect`.

    `topics` are names, or a mapping of names to the tags to filter by (none: all messages), or a compiled pattern that
    names match as a whole (asked of the master's web port at `start`). All clients of a group must agree on topics,
    filters and `source_count`, and each must have a `node_id` of its own from 0 to source_count - 1; with a
    `source_count` below 0 the master checks neither. Dealing partitions to nodes is up to the caller: see `assign`,
    and `PullConsumer`, which does it.

    A partition that the group has no position for begins where `start_from` says; "always_latest" begins at the end
    whenever this consumer connects it first. Packs must be confirmed: until then the partition gives no other, and
    after `confirm_timeout_ms` it gives the same messages again. Up to `prefetch` packs are fetched ahead of `get`,
    and one more behind each confirmation; none with a `prefetch` of 0.
    With `fail_on_data_loss` false, messages that expired are passed over with a warning in the log.

    Callbacks are called with one partition each: `on_assigned(partition, offset)` after it was connected,
    `on_revoked(partition)` before it is given back, when packs of it may still be confirmed, and
    `on_lost(partition, error)` after it went to another client, or cannot be had any more. They run on the thread that
    did it, or found out; what they raise is logged.

    `get` and `confirm` may be called by several threads. Close it, or use it as a context manager. Methods raise
    subclasses of TubeError; in particular ClientClosed after `close`. The calls of Apache's Java class of the same name
    are all here; those that differ in more than case: `connect2Partition` is `connect`, `disconnectFromPartition`
    `disconnect`, `getMessage` `get`, `confirmConsume` `confirm`, `getPartitionMetaInfo` `partitions`,
    `getCurRegisteredPartSet` `registered`, `getCurPartitionOffsetInfos` `positions`, `isPartitionsReady` `wait_ready`,
    `isFilterConsume` `is_filtered`, `shutdown` `close`, `isShutdown` `closed`, `getConsumerConfig` `settings`,
    `getClientVersion` `version`.

    >>> consumer = ClientBalanceConsumer(settings, "etl", ["clicks"], source_count=2, node_id=0)  # doctest: +SKIP
    >>> with consumer:  # doctest: +SKIP
    ...     for partition in assign("modulo", consumer.partitions(), 2)[0]:
    ...         consumer.connect(partition)
    ...     for delivery in consumer:  # confirmed when the loop comes back for the next one
    ...         print(delivery.partition, delivery.bodies)
    """

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
        self._orders = GroupOrders()
        self._threads: list[threading.Thread] = []

    # Life

    def start(self, *, patience_ms: float = 0) -> ClientBalanceConsumer:
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
                if self._pattern is not None:
                    names = matching_topics(self._pattern, Admin(self._settings).topic_names())
                    self._filters = dict.fromkeys(names, frozenset())
                running = self._build()
                try:
                    running.membership.join(patience_ms)
                except BaseException:
                    running.close()
                    raise
                self._running = running
                running.consumption.orders = self._orders
        return self

    def close(self, *, wait_ms: float = 0) -> None:
        """Give all partitions back, waiting up to `wait_ms` for packs that are out, and leave the group.

        `on_revoked` is called for each partition before; unconfirmed packs are rolled back. No thread is left.
        """
        if self.inherited:
            return
        with self._lifecycle:
            if self._closed:
                return
            self._closed = True
        running = self._running
        if running is None:
            return
        running.registrations.closed = True
        self._monitor.notify(CHANGED)
        deadline = monotonic() + wait_ms / 1000
        try:
            with self._monitor.lock:
                held = sorted(running.registrations.holdings.by_key)
            for key in held:
                left_ms = max(0.0, (deadline - monotonic()) * 1000)
                self._run(running.registrations.disconnect(key, wait_ms=left_ms, at_once=True))
        finally:
            for line in list(running.registrations.holdings.lines.values()):
                self._monitor.notify(line.signal)
            running.close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(_JOIN_SECONDS)

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def __enter__(self) -> ClientBalanceConsumer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    # Partitions

    def partitions(self, *, refresh: bool = False) -> dict[PartitionKey, bool]:
        """All configured partitions of the topics, sorted, and whether each takes readers now.

        As the master showed them last, which is at most `metadata_interval_ms` ago while it answers; `refresh` asks it
        now, and waits for it up to 30 s (DeadlineExceeded).
        """
        membership = self._live().membership
        view = membership.refreshed_view() if refresh else membership.view()
        return {key: view.is_subscribable(key) for key in view.partitions()}

    def refresh_topics(self) -> bool:
        """For a consumer by pattern: look for topics anew, and read those that match now; whether they changed.

        The group's topics are the same for all its clients, so this one leaves the group and joins it again once the
        others have changed over; partitions go on being read meanwhile. `partitions` shows the new ones then.
        """
        membership = self._live().membership
        if self._pattern is None:
            return False
        names = matching_topics(self._pattern, Admin(self._settings).topic_names())
        if names == sorted(self._filters):
            return False
        self._filters = dict.fromkeys(names, frozenset())
        membership.change_topics(names)
        return True

    def connect(self, partition: PartitionKey, offset: int = BootstrapOffset.STORED, *, timeout_ms: float = 0) -> int:
        """Read a partition from now on; returns the index offset it begins at.

        `offset` >= 0 moves the group there, -1 (`BootstrapOffset.STORED`) goes on where the group stands,
        `BootstrapOffset.EARLIEST` and `.LATEST` go to the ends of what the broker holds. A partition that is
        connected already is moved; packs of it that are out do not count any more. Passing refusals are tried
        again for `timeout_ms`: PartitionOccupied (410) while another client of the group has it, an unreachable
        broker. Raises ConfigurationError for a partition that the topics do not have, PartitionUnavailable for
        one that takes no readers, DataLoss for an offset outside of what the broker holds (where
        `fail_on_data_loss`), and what the last attempt met.
        """
        running = self._live()
        view = running.membership.view()
        if not view.is_subscribable(partition):  # perhaps it is new, or back
            view = running.membership.refreshed_view()
        start = self._run(running.registrations.connect(view, partition, offset, timeout_ms=timeout_ms))
        self._report()
        return start

    def disconnect(self, partition: PartitionKey, *, wait_ms: float = 3_000) -> bool:
        """Give a partition back; false where it is not connected.

        A pack of it that is out may be confirmed for `wait_ms` more, by another thread or by `on_revoked`; then it is
        rolled back.
        """
        released = self._run(self._live().registrations.disconnect(partition, wait_ms=wait_ms))
        self._report()
        return released

    def registered(self) -> list[PartitionKey]:
        """The partitions that are connected, sorted."""
        running = self._live()
        with self._monitor.lock:
            return running.registrations.holdings.registered()

    def wait_ready(self, timeout_ms: float) -> bool:
        """Wait until a partition is connected; false where none is after `timeout_ms`."""
        return self._run(self._live().registrations.wait_registered(timeout_ms))

    def positions(self) -> dict[PartitionKey, Position]:
        """How far each connected partition was confirmed and fetched, and where its data ended when the broker said
        so last.
        """
        running = self._live()
        with self._monitor.lock:
            held = running.registrations.holdings
            return {key: held.by_key[key].position for key in held.registered()}

    # Messages

    def get(self, *, timeout_ms: float = 1_000) -> Delivery | None:
        """Return the next pack of messages of any connected partition, or None where there was none for so long.

        Partitions take turns; one whose pack is not confirmed gives no other. Raises DataLoss once where messages
        expired before they were read, CorruptMessage where one does not match its checksum, ClientClosed.
        """
        return self._run(self._live().consumption.get(timeout_ms=timeout_ms))

    def confirm(self, delivery: Delivery, *, consumed: bool = True) -> int:
        """Say that a pack was dealt with, or (`consumed` false) that it is to be read again; returns the position of
        the group afterwards, which is the exclusive end of the pack.

        StalePack where the pack does not count any more: confirmed before, given up after `confirm_timeout_ms`, or its
        partition moved, given back or lost. A TransportError leaves open whether the messages come again; where the
        broker refuses for now (ServerBusy, as one does that is about to stop) they do.
        """
        self.check_process()
        running = self._running
        if running is None:
            raise ConfigurationError("this consumer was not started; call start(), or use it in a with statement")
        return self._run(running.consumption.confirm(delivery, consumed=consumed))

    def __iter__(self) -> Iterator[Delivery]:
        """Packs, without end until the consumer is closed.

        Coming back for the next one confirms the last one, unless that was done; where it does not count any more, its
        messages come again. Leaving the loop leaves the last one unconfirmed.
        """
        while not self._closed:
            try:
                delivery = self.get(timeout_ms=_STEP_MS)
            except ClientClosed:
                return
            if delivery is None:
                continue
            yield delivery
            if not delivery.settled:
                try:
                    self.confirm(delivery)
                except TubeError as error:
                    if not (error.retriable or isinstance(error, (StalePack, ClientClosed))):
                        raise
                    _log.warning("%r could not be confirmed: %s", delivery, error)

    # What it is

    @property
    def consumer_id(self) -> str:
        """Under this id the master and the brokers know this consumer."""
        return self._live().plan.client_id

    @property
    def consumer_group(self) -> str:
        return self._group

    @property
    def version(self) -> str:
        """The client's version, which its id names too."""
        return __version__

    @property
    def settings(self) -> ClientSettings:
        return self._settings

    @property
    def source_count(self) -> int:
        return self._source_count

    @property
    def node_id(self) -> int:
        return self._node_id

    @property
    def topics(self) -> dict[str, frozenset[str]]:
        """The topics that are read, and the tags each is filtered by; of a pattern, those found by `start`."""
        return dict(self._filters)

    def is_filtered(self, topic: str) -> bool:
        """Whether only messages with certain tags are read of a topic."""
        return bool(self._filters.get(topic))

    def __repr__(self) -> str:
        state = "closed" if self._closed else "not started" if self._running is None else "running"
        return f"<{type(self).__name__} of {self._group}, node {self._node_id} of {self._source_count}, {state}>"

    # Inside

    def _live(self) -> Running:
        self.check_process()
        if self._closed:
            raise ClientClosed("this consumer is closed")
        if self._running is None:
            raise ConfigurationError("this consumer was not started; call start(), or use it in a with statement")
        return self._running

    def _build(self) -> Running:
        membership = GroupMembership(
            self._settings,
            self._group,
            list(self._filters),
            self._source_count,
            filters=self._filters,
            refresh_interval_ms=self._metadata_interval_ms,
            node_ids=[self._node_id],
            on_orders=self._take_orders,
            on_view=self._take_view,
            on_end=self._membership_ended,
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
        )
        registrations = Registrations(plan, random.Random())
        return Running(plan, membership, registrations, Consumption(registrations), ConnectionPool(self._settings))

    def _run(self, flow: Flow[T]) -> T:
        """Run a flow on this thread, and do what it emits."""
        running = self._running
        assert running is not None
        steps = FlowRunner(running.pool, self._monitor).iterate(flow)
        while True:
            try:
                event = next(steps)
            except StopIteration as stop:
                result: T = stop.value
                return result
            self._handle(running, event)

    def _handle(self, running: Running, event: object) -> None:
        if isinstance(event, Assigned):
            self._keep_leases(running, event.partition)
        elif isinstance(event, Expired):
            _log.warning("expired before they were read: %s", event.lost)
        elif isinstance(event, Lost):
            _log.warning("partition %s is lost: %s", event.partition, event.error)
            self._report()
        callback = self._callbacks.get(type(event))
        if callback is not None:
            try:
                callback(event)
            except Exception:
                _log.exception("a callback for %r failed", event)

    def _report(self) -> None:
        running = self._running
        if running is not None and not self._closed:
            running.membership.report({running.membership.node_ids[0]: self.registered()})

    def _keep_leases(self, running: Running, key: PartitionKey) -> None:
        with self._monitor.lock:
            line = running.registrations.holdings.lines[key.broker_id]
            if line.kept:
                return
            line.kept = True
        try:
            self._spawn(f"tubeclient-lease-{line.info.broker_id}", lambda: self._keep_line(running, line))
        except BaseException:
            line.kept = False
            raise

    def _keep_line(self, running: Running, line: BrokerLine) -> None:
        try:
            self._run(keep_leases(running.registrations, line))
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
                self._spawn("tubeclient-jump", lambda: self._run(running.registrations.jump_to_latest()))

    def _take_view(self, view: ClusterView) -> None:
        if self._running is not None:
            with self._monitor.lock:
                self._running.registrations.follow(view)

    def _membership_ended(self) -> None:
        """Partitions go on being read; whoever asks for the layout is told why there is none any more."""

    def _spawn(self, name: str, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, name=name, daemon=True)
        with self._monitor.lock:
            self._threads = [*(running for running in self._threads if running.is_alive()), thread]
            thread.start()


@dataclass(frozen=True)
class Running:
    """What a started consumer consists of."""

    plan: ReadPlan
    membership: GroupMembership
    registrations: Registrations
    consumption: Consumption
    pool: ConnectionPool

    def close(self) -> None:
        self.membership.close()
        self.pool.close()
