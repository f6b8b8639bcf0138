"""A consumer of a client-balance group, with explicit partitions."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Self, TypeVar

from tubeclient.arguments import checked_partition, whole_number
from tubeclient.consumers.group import GroupMembership
from tubeclient.consumers.running_consumer import ConsumerEvents, ConsumerLife, Running
from tubeclient.counts import ReadCounts, Sample, lag_samples
from tubeclient.errors import ClientClosed, StalePack, TubeError
from tubeclient.flows.effects import Flow
from tubeclient.flows.hold_group import Forgotten
from tubeclient.flows.master import GroupOrders
from tubeclient.flows.message_pack import BadMessages, Delivery, Position, ReceivedMessage
from tubeclient.flows.patience import given_ms
from tubeclient.flows.read_plan import BootstrapOffset, ReadPlan, StartFrom
from tubeclient.flows.registrations import Assigned, Lost, Revoking
from tubeclient.identity import new_client_id
from tubeclient.keys import PartitionKey, rows_behind_by_store
from tubeclient.metadata import ClusterView
from tubeclient.metrics import show
from tubeclient.names import Topics, group_name, read_topics, reader_groups_of, why_no_group
from tubeclient.net.forgotten import weakly
from tubeclient.net.fork import ProcessBound
from tubeclient.net.runner import Monitor
from tubeclient.settings import ClientSettings, checked_settings

_log = logging.getLogger(__name__)

_STEP_MS = 250.0

T = TypeVar("T")


class ClientBalanceConsumer(ProcessBound):
    """One client of `consumer_group`. `connect` says which partitions it reads, and from where.

    `topics` are names, or a mapping of names to the tags to filter by (none: all messages). All clients of a group must
    agree on topics, filters and `source_count`, and each must have its own `node_id` from 0 to source_count - 1. With a
    `source_count` below 0 the master checks neither. The caller assigns partitions to nodes: see `assign`.
    `PullConsumer` does it by itself.

    If the group has no position in a partition, reading begins where `start_from` says. "always_latest" begins at the
    end when this consumer first connects a partition, even if the group has a position. Packs must be confirmed. Until
    then the partition gives no other pack, and after `confirm_timeout_ms` it gives the same messages again. Up to
    `prefetch` packs are fetched ahead of `get`, and one more with each confirmation; none with a `prefetch` of 0. With
    `fail_on_data_loss` false, messages that expired are skipped with a warning in the log. With `bad_messages` "keep",
    messages that do not match their checksums or cannot be parsed are delivered with a `bad_reason`, and each pack with
    some is a warning in the log; else they are a CorruptMessage, again and again.

    Callbacks get one partition each: `on_assigned(partition, offset)` after it was connected, `on_revoked(partition)`
    before it is released, while its packs may still be confirmed, and `on_lost(partition, error)` after another
    client got it, or when it is no longer available. They run on the thread that did it or found out. What they raise
    is logged.

    `get` and `confirm` may be called by several threads. Close it, or use it as a context manager. Methods raise
    subclasses of TubeError, and ClientClosed after `close`. Calls of Apache's Java class of this name have these names
    here: `connect2Partition` is `connect`, `disconnectFromPartition` `disconnect`, `getMessage` `get`, `confirmConsume`
    `confirm`, `getPartitionMetaInfo` `partitions`, `getCurRegisteredPartSet` `registered`, `getCurPartitionOffsetInfos`
    `positions`, `isPartitionsReady` `wait_ready`, `shutdown` `close`, `isShutdown` `closed`.

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
        bad_messages: BadMessages = "fail",
        metadata_interval_ms: int = 10_000,
        on_assigned: Callable[[PartitionKey, int], None] | None = None,
        on_revoked: Callable[[PartitionKey], None] | None = None,
        on_lost: Callable[[PartitionKey, TubeError], None] | None = None,
    ) -> None:
        super().__init__()
        self._settings = checked_settings(settings)
        consumer_group = group_name(consumer_group)
        self._plan = ReadPlan(
            group=consumer_group,
            start_from=start_from,
            prefetch=prefetch,
            confirm_timeout_ms=confirm_timeout_ms,
            fail_on_data_loss=fail_on_data_loss,
            bad_messages=bad_messages,
            reader_groups=reader_groups_of(consumer_group),
            new_client_id=partial(new_client_id, consumer_group, "look"),
            counts=ReadCounts(consumer_group),
        )
        # Not an error: such groups may be older, and are harmed only if the other group is read.
        why = why_no_group(consumer_group)
        if why is not None:
            _log.warning("consumer_group is %s, %s", consumer_group, why)
        self._source_count = whole_number(source_count, "source_count")
        self._node_id = whole_number(node_id, "node_id")
        self._filters = read_topics(topics)
        self._metadata_interval_ms = given_ms(metadata_interval_ms, "metadata_interval_ms")
        self._events = ConsumerEvents()
        if on_assigned is not None:
            self._events.call(Assigned, lambda event: on_assigned(event.partition, event.offset))
        if on_revoked is not None:
            self._events.call(Revoking, lambda event: on_revoked(event.partition))
        if on_lost is not None:
            self._events.call(Lost, lambda event: on_lost(event.partition, event.error))
        self._monitor = Monitor()
        self._life = ConsumerLife()
        self._orders = GroupOrders()
        show(self, ClientBalanceConsumer._now)

    # Its life

    def start(self, *, patience_ms: float = 0) -> Self:
        """Register at the master. Returns this consumer. `with` does it too.

        The master takes a dead run of the same node for alive for 30 s, so 424 to 430 are tried again for
        `patience_ms`. Raises the master's refusal (TopicNotDeployed, GroupConflict, NodeIdConflict, GroupForbidden,
        ...), or a ConnectError that names the masters.
        """
        self.check_process()
        what = f"a {type(self).__name__} of consumerGroup {self.consumer_group}"
        running = self._life.begin(self, what, self._build, given_ms(patience_ms, "patience_ms"))
        running.consumption.fetching.orders = self._orders
        return self

    def close(self, *, wait_ms: float = 0) -> None:
        """Give all partitions back, waiting up to `wait_ms` for packs that are out, and leave the group.

        `on_revoked` is called for each partition before. Unconfirmed packs are rolled back. All threads end.
        """
        if not self.inherited:
            self._life.end(given_ms(wait_ms, "wait_ms"), self._events.handle)

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._life.closed

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _live(self) -> Running:
        self.check_process()
        return self._life.live()

    def _started(self) -> Running:
        self.check_process()
        return self._life.started()

    # Partitions

    def partitions(self, *, refresh: bool = False) -> dict[PartitionKey, bool]:
        """All configured partitions of the topics, sorted, and whether each takes readers now.

        They are as the master showed them last, at most `metadata_interval_ms` ago as long as it answers. `refresh`
        asks it now, and waits up to 30 s (DeadlineExceeded).
        """
        membership = self._live().membership
        view = membership.refreshed_view() if refresh else membership.view()
        return {key: view.is_subscribable(key) for key in view.partitions()}

    def connect(self, partition: PartitionKey, offset: int = BootstrapOffset.STORED, *, timeout_ms: float = 0) -> int:
        """Read a partition from now on; returns the index offset it begins at.

        `offset` >= 0 moves the group there, -1 (`BootstrapOffset.STORED`) goes on where the group stands,
        `BootstrapOffset.EARLIEST` and `.LATEST` go to the ends of what the broker holds. A partition that is already
        connected is moved; packs of it that are out do not count any more. PartitionOccupied (410), while another
        client of the group has it, and an unreachable broker are tried again for `timeout_ms`. Raises
        ConfigurationError for a partition that the topics do not have, PartitionUnavailable for one that takes no
        readers, with `fail_on_data_loss` DataLoss for an offset that the broker does not hold, and the error of the
        last attempt.
        """
        checked_partition(partition)
        whole_number(offset, "the offset to connect at")
        running = self._live()
        view = running.membership.view()
        if not view.is_subscribable(partition):  # it may be new, or back
            view = running.membership.refreshed_view()
        start = self._run(running.registrations.connect(view, partition, offset, timeout_ms=timeout_ms))
        running.report()
        return start

    def disconnect(self, partition: PartitionKey, *, wait_ms: float = 3_000) -> bool:
        """Give a partition back. False if it is not connected.

        For `wait_ms` more, a pack of it that is out may be confirmed, by another thread or by `on_revoked`. Then it is
        rolled back.
        """
        checked_partition(partition)
        running = self._live()
        released = self._run(running.registrations.disconnect(partition, wait_ms=wait_ms))
        running.report()
        return released

    def registered(self) -> list[PartitionKey]:
        """The connected partitions, sorted."""
        return self._live().registered()

    def wait_ready(self, timeout_ms: float) -> bool:
        """Wait until a partition is connected. False if none is after `timeout_ms`."""
        return self._run(self._live().registrations.wait_registered(timeout_ms))

    def positions(self) -> dict[PartitionKey, Position]:
        """How far each connected partition was confirmed and fetched, and where its data ended by the broker's last
        answer.
        """
        running = self._live()
        with self._monitor.lock:
            held = running.registrations.holdings
            return {key: held.by_key[key].position for key in held.registered()}

    # Messages

    def get(self, *, timeout_ms: float = 1_000) -> Delivery | None:
        """Return the next pack of messages of any connected partition, None if there was none for `timeout_ms`.

        Partitions take turns; one whose pack is not confirmed gives no other. Raises DataLoss, once, if messages
        expired before they were read, CorruptMessage if one does not match its checksum and bad ones are not kept, and
        ClientClosed.
        """
        return self._run(self._live().consumption.get(timeout_ms=timeout_ms))

    def confirm(self, delivery: Delivery, *, consumed: bool = True) -> int:
        """Say that a pack was processed, or with `consumed` false, that it must be read again. Returns the position of
        the group afterwards: for a processed pack its exclusive end.

        StalePack if the pack does not count any more: it was confirmed, it was given up after `confirm_timeout_ms`, or
        its partition was moved, released or lost. After a TransportError the messages may come again. If the broker
        refuses for now (ServerBusy, for example because it is about to stop), they do.
        """
        return self._run(self._started().consumption.confirm(delivery, consumed=consumed))

    def confirm_async(self, delivery: Delivery, *, consumed: bool = True) -> None:
        """As `confirm`, without waiting for the broker's answer. It is about a fifth faster if packs come all the time.

        A later `get` or `wait_confirmed` takes the answer; then `positions` shows the new position. A failure is
        logged, and the messages may come again. StalePack if the pack does not count any more.
        """
        self._run(self._started().consumption.confirm_async(delivery, consumed=consumed))

    def wait_confirmed(self, timeout_ms: float) -> bool:
        """Wait until all asynchronous confirmations were answered. False if that takes longer than `timeout_ms`."""
        return self._run(self._started().consumption.wait_confirmed(timeout_ms))

    def __iter__(self) -> Iterator[Delivery]:
        """Packs, without end until the consumer is closed.

        The next step of the loop confirms the last pack, as `confirm_async` does, unless that was done. If the pack
        does not count any more, its messages come again. The pack at which the loop is left stays unconfirmed.
        """
        while not self._life.closed:
            try:
                delivery = self.get(timeout_ms=_STEP_MS)
            except ClientClosed:
                return
            if delivery is None:
                continue
            yield delivery
            if not delivery.settled:
                try:
                    self.confirm_async(delivery)
                except (StalePack, ClientClosed) as error:
                    _log.warning("%r could not be confirmed: %s", delivery, error)

    def messages(self) -> Iterator[ReceivedMessage]:
        """Messages one by one, without end until the consumer is closed, each with its partition and, if it can be
        counted, its offset.

        A pack is confirmed, as `confirm_async` does, when the message after its last one is asked for. If the loop ends
        before that, by an exception or `break`, the whole pack stays unconfirmed, and its messages come again.
        `message.delivery` is the pack, which may be confirmed by hand.
        """
        for delivery in self:
            yield from delivery.received()

    # What it is

    @property
    def consumer_id(self) -> str:
        """The client id at the master and the brokers."""
        return self._live().plan.client_id

    @property
    def consumer_group(self) -> str:
        return self._plan.group

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
        """The topics that are read, and the tags each is filtered by."""
        return dict(self._filters)

    def __repr__(self) -> str:
        state = "closed" if self._life.closed else "not started" if self._life.running is None else "running"
        return f"<{type(self).__name__} of {self.consumer_group}, {self._place()}, {state}>"

    def _place(self) -> str:
        return f"node {self._node_id} of {self._source_count}" if self._source_count > 0 else "an unnumbered node"

    # How it runs

    def _now(self) -> Iterator[Sample]:
        """Its partitions and their lag."""
        with contextlib.suppress(TubeError):  # not started, or closed
            positions = self.positions()
            ends = {key: at.end for key, at in positions.items()}
            behind: Counter[str] = Counter()
            for store, rows in rows_behind_by_store(ends, {key: at.confirmed for key, at in positions.items()}).items():
                behind[store.topic] += rows
            yield from lag_samples(self.consumer_group, behind, Counter(key.topic for key in positions))

    def _build(self) -> Running:
        membership = GroupMembership(
            self._settings,
            self._plan.group,
            list(self._filters),
            self._source_count,
            filters=self._filters,
            refresh_interval_ms=self._metadata_interval_ms,
            node_ids=[self._node_id],
            on_event=weakly(self._take),
        )
        plan = replace(
            self._plan,
            client_id=membership.client_ids[0],
            filters=self._filters,
            authority=membership.authority,
        )
        return Running.of(self._settings, self._monitor, membership, plan)

    def _run(self, flow: Flow[T]) -> T:
        """Run a flow on this thread, and handle its emitted values."""
        running = self._life.running
        assert running is not None
        return running.run(flow, self._events.handle)

    def _take(self, event: GroupOrders | ClusterView | Forgotten | TubeError) -> None:
        """An event of the membership. After one that ended it reading continues; calls that need the layout raise the
        reason."""
        running = self._life.running
        if isinstance(event, GroupOrders):
            before, self._orders = self._orders, event
            if running is not None:  # otherwise `start` handles the orders of the registration, none of which is a jump
                running.consumption.fetching.orders = event
                if event.jump_id != before.jump_id:
                    _log.info("the master wants consumerGroup %s to go on with the latest messages", self._plan.group)
                    self._events.jump(running)
        elif isinstance(event, ClusterView) and running is not None:
            with self._monitor.lock:
                running.registrations.follow(event)
