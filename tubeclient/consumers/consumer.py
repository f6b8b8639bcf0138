"""A consumer of a client-balance group, with explicit partitions."""

from __future__ import annotations

import contextlib
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Self

from tubeclient._version import __version__
from tubeclient.arguments import checked_partition, given_ms, whole_number
from tubeclient.consumers.consumer_config import shown_config
from tubeclient.consumers.group import GroupMembership
from tubeclient.consumers.running_consumer import Running, rows_behind_by_topic
from tubeclient.consumers.topic_watch import subscription
from tubeclient.counts import ReadCounts, Sample, lag_samples
from tubeclient.errors import ClientClosed, TubeError
from tubeclient.flows.hold_group import Forgotten
from tubeclient.flows.master import GroupOrders
from tubeclient.flows.message_pack import BadMessages, Delivery, Position, ReceivedMessage
from tubeclient.flows.read_plan import BootstrapOffset, ReadPlan, StartFrom
from tubeclient.flows.registrar import Assigned, Lost, Revoking
from tubeclient.identity import new_client_id
from tubeclient.keys import PartitionKey
from tubeclient.metadata import ClusterView
from tubeclient.metrics import show
from tubeclient.names import Topics, group_name, reader_groups_of, why_no_group
from tubeclient.net.forgotten import Watch, weakly
from tubeclient.net.fork import ProcessBound
from tubeclient.net.waiting import call_back
from tubeclient.settings import ClientSettings, checked_settings

_log = logging.getLogger(__name__)

_STEP_MS = 250.0


class ClientBalanceConsumer(ProcessBound):
    """One client of `consumer_group`. `connect` says which partitions it reads, and from where.

    All clients of a group must agree on topics, filters and `source_count`. The caller assigns partitions to nodes; see
    `assign`. `PullConsumer` does that by itself.

    Packs must be confirmed. Until its pack is confirmed, a partition gives no other one. After `confirm_timeout_ms` it
    gives the same messages again.

    Callbacks get one partition each and run on the thread that made or noticed the change. Their errors are logged.

    `get` and `confirm` may be called by several threads. Close the consumer, or use it as a context manager. Methods
    raise subclasses of TubeError, and ClientClosed after `close`. Apache's Java class of this name calls `connect`
    `connect2Partition`, `get` `getMessage`, `confirm` `confirmConsume`, `wait_ready` `isPartitionsReady`.

        >>> consumer = ClientBalanceConsumer(settings, "etl", ["clicks"], source_count=2, node_id=0)  # doctest: +SKIP
        >>> with consumer:  # doctest: +SKIP
        ...     for partition in assign("modulo", consumer.partitions(), 2)[0]:
        ...         consumer.connect(partition)
        ...     for delivery in consumer:  # confirmed when the loop comes back for the next one
        ...         print(delivery.partition, delivery.bodies)

    Args:
        topics: Names, or a mapping of names to the tags to filter by (none: all messages).
        source_count: How many nodes the group has. If it is below 0, the master checks neither it nor `node_id`.
        node_id: The node of this client, from 0 to source_count - 1. Each client needs its own.
        subscribe_pattern: Instead of `topics`, a regular expression. It selects all topics whose whole name matches, as
            a master's web port lists them. `partitions` and `connect` look for them every `metadata_interval_ms`.
        start_from: Where reading begins if the group has no position in a partition. With "always_latest", reading
            begins at the end whenever this consumer first connects a partition.
        prefetch: How many packs are fetched ahead of `get`, at most.
        fail_on_data_loss: If false, messages that expired are skipped with a warning in the log.
        bad_messages: With "keep", messages that do not match their checksums or cannot be parsed are delivered with a
            `bad_reason`, and the log has a warning. With "fail", they raise CorruptMessage, again and again.
        on_assigned: Called with a partition and its offset after it was connected.
        on_revoked: Called before a partition is released, while its packs may still be confirmed.
        on_lost: Called with a partition and the error after another client got it, or when it is no longer available.

    Raises:
        ConfigurationError: An argument is wrong.
    """

    def __init__(
        self,
        settings: ClientSettings,
        consumer_group: str,
        topics: Topics = (),
        *,
        source_count: int = -1,
        node_id: int = -1,
        subscribe_pattern: str | re.Pattern[str] | None = None,
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
        settings = checked_settings(settings)
        self._group = group_name(consumer_group)
        # Not an error: such groups may be older, and are harmed only if the other group is read.
        why = why_no_group(consumer_group)
        if why is not None:
            _log.warning("consumer_group is %s, %s", consumer_group, why)
        self._source_count = whole_number(source_count, "source_count")
        self._node_id = whole_number(node_id, "node_id")
        interval_ms = given_ms(metadata_interval_ms, "metadata_interval_ms")
        self._filters, self._topic_watch = subscription(settings, topics, subscribe_pattern, interval_ms)
        self._on_assigned, self._on_revoked, self._on_lost = on_assigned, on_revoked, on_lost
        membership = GroupMembership(
            settings,
            self._group,
            self._topic_watch or list(self._filters),
            self._source_count,
            filters=self._filters,
            refresh_interval_ms=interval_ms,
            node_ids=[self._node_id],
            on_event=weakly(self._follow),
        )
        plan = ReadPlan(
            group=self._group,
            client_id=membership.client_ids[0],
            filters=self._filters,
            later_topics=() if self._topic_watch is None else self._topic_watch.later,
            start_from=start_from,
            prefetch=prefetch,
            confirm_timeout_ms=confirm_timeout_ms,
            fail_on_data_loss=fail_on_data_loss,
            bad_messages=bad_messages,
            authority=membership.authority,
            reader_groups=reader_groups_of(self._group),
            new_client_id=partial(new_client_id, self._group, "look"),
            counts=ReadCounts(self._group),
        )
        self._plan, self._settings = plan, settings
        self._config: dict[str, object] = {
            "subscribe_pattern": subscribe_pattern,
            "source_count": source_count,
            "node_id": node_id,
            "metadata_interval_ms": metadata_interval_ms,
        }
        self._running = running = Running(settings, membership, plan, self._handle)
        what = f"a {type(self).__name__} of consumerGroup {self._group}"
        self._watch = Watch(what, partial(_end, weakly(self.close), running), self)
        show(self, ClientBalanceConsumer._now)

    # Its life

    def start(self, *, occupied_timeout_ms: float = 0) -> Self:
        """Register at the master. `with` does it too.

        Args:
            occupied_timeout_ms: How long refusals with codes 424 to 430 are tried again. The master takes a dead run of
                the same node for alive for 30 s.

        Returns:
            This consumer.

        Raises:
            StatusError: The master refuses, for example with TopicNotDeployed, GroupConflict, NodeIdConflict or
                GroupForbidden. The consumer is closed.
            ConnectError: No master answers; the error names the masters. The consumer is closed.
        """
        self.check_process()
        self._running.begin(given_ms(occupied_timeout_ms, "occupied_timeout_ms"), self._watch)
        return self

    def close(self, *, wait_ms: float = 0) -> None:
        """Give all partitions back and leave the group.

        `on_revoked` is called for each partition before that. Unconfirmed packs are rolled back. All threads end.

        Args:
            wait_ms: How long to wait for packs that are out.
        """
        if not self.inherited:
            self._running.end(given_ms(wait_ms, "wait_ms"))
            self._watch.end()

    @property
    def closed(self) -> bool:
        """Whether `close` was called, or the start failed."""
        return self._running.closed

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _live(self) -> Running:
        self.check_process()
        return self._running.live()

    # Partitions

    def partitions(self, *, refresh: bool = False) -> dict[PartitionKey, bool]:
        """Return all configured partitions of the topics, sorted, and whether each takes readers now.

        The answer is what the master showed last. While the master answers, that is at most `metadata_interval_ms` old.

        Args:
            refresh: Ask the master now, and wait up to 30 s.

        Raises:
            DeadlineExceeded: The masters did not answer a refresh in time.
        """
        membership = self._live().membership
        view = membership.refreshed_view() if refresh else membership.view()
        return {key: view.is_subscribable(key) for key in view.partitions()}

    def connect(self, partition: PartitionKey, offset: int = BootstrapOffset.STORED, *, timeout_ms: float = 0) -> int:
        """Read a partition from now on.

        A partition that is already connected is moved. Packs of it that are out no longer count. It is still connected
        after a DataLoss or a TransportError.

        Args:
            offset: From 0 on, move the group there (index offset). -1 (`BootstrapOffset.STORED`) continues at the
                group's position. `BootstrapOffset.EARLIEST` and `.LATEST` go to the ends of what the broker holds.
            timeout_ms: How long to try again after faults and refusals that may pass: above all another client of the
                group has the partition (410), or the broker cannot be reached.

        Returns:
            The index offset at which reading begins.

        Raises:
            ConfigurationError: The offset or the partition cannot be.
            PartitionUnavailable: The partition takes no readers now, or was released meanwhile.
            PartitionOccupied: Another client of the group has the partition.
            DataLoss: With `fail_on_data_loss`, the broker does not hold the offset.
            TubeError: Any other error of the last attempt.
        """
        checked_partition(partition)
        whole_number(offset, "the offset to connect at")
        running = self._live()
        view = running.membership.view()
        if not view.is_subscribable(partition):  # it may be new, or back
            view = running.membership.refreshed_view()
        start = running.run(running.registrar.connect(view, partition, offset, timeout_ms=timeout_ms))
        running.report()
        return start

    def disconnect(self, partition: PartitionKey, *, wait_ms: float = 3_000) -> bool:
        """Give a partition back.

        Args:
            wait_ms: How long a pack that is out may still be confirmed, by another thread or by `on_revoked`. Then it
                is rolled back.

        Returns:
            False if the partition is not connected, or another thread is giving it back.
        """
        checked_partition(partition)
        running = self._live()
        released = running.run(running.registrar.disconnect(partition, wait_ms=wait_ms))
        running.report()
        return released

    def registered(self) -> list[PartitionKey]:
        """Return the connected partitions, sorted."""
        return self._live().registered()

    def wait_ready(self, timeout_ms: float) -> bool:
        """Wait until a partition is connected. Returns False if none is after `timeout_ms`."""
        running = self._live()
        return running.run(running.registrar.wait_registered(timeout_ms))

    def positions(self) -> dict[PartitionKey, Position]:
        """Return how far each connected partition was confirmed and fetched.

        Each position also says where the partition's data ended by the broker's last answer.
        """
        return self._live().positions()

    # Messages

    def get(self, *, timeout_ms: float = 1_000) -> Delivery | None:
        """Return the next pack of messages of any connected partition. Partitions take turns.

        Returns:
            The pack, or None if there was none for `timeout_ms`. A partition whose pack is not confirmed gives no
            other.

        Raises:
            DataLoss: Messages expired before they were read. It is raised once.
            CorruptMessage: A message does not match its checksum, and bad messages are not kept.
            ClientClosed: The consumer is closed.
        """
        running = self._live()
        return running.run(running.fetcher.get(timeout_ms=timeout_ms))

    def confirm(self, delivery: Delivery, *, consumed: bool = True) -> int:
        """Tell the broker that a pack was processed, or must be read again.

        After a TransportError the messages may come again. If the broker refuses for now (ServerBusy, for example
        because it is about to stop), they do come again.

        Args:
            consumed: False if the pack must be read again.

        Returns:
            The position of the group afterwards. For a processed pack, that is its exclusive end.

        Raises:
            StalePack: The pack no longer counts. It was confirmed, or was given up after `confirm_timeout_ms`, or its
                partition was moved, released or lost.
        """
        self.check_process()
        running = self._running.started()
        return running.run(running.fetcher.confirm(delivery, consumed=consumed))

    def __iter__(self) -> Iterator[Delivery]:
        """Yield packs until the consumer is closed.

        The next step of the loop confirms the last pack, unless that was done. If that fails, it is logged, and the
        messages may come again. The pack at which the loop is left stays unconfirmed.
        """
        while not self.closed:
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
                    _log.warning("%r could not be confirmed: %s", delivery, error)

    def messages(self) -> Iterator[ReceivedMessage]:
        """Yield messages one by one until the consumer is closed.

        A pack is confirmed when the message after its last one is requested. If the loop ends before that, by an
        exception or `break`, the whole pack stays unconfirmed, and its messages come again.

        Yields:
            Each message with its partition and, if it can be counted, its offset. `message.delivery` is the pack, which
            you may confirm yourself.
        """
        for delivery in self:
            yield from delivery.received()

    # What it is

    @property
    def consumer_id(self) -> str:
        """The client id at the master and the brokers."""
        self._live()
        return self._plan.client_id

    @property
    def client_version(self) -> str:
        """The version of this client."""
        return __version__

    @property
    def consumer_config(self) -> dict[str, object]:
        """The settings in use: all arguments but callbacks, and the fields of `settings`, by their names.

        `json.dumps` takes the values. There are no passwords. Apache's class calls it `getConsumerConfig`.
        """
        return shown_config(self._settings, self._plan, self._config)

    @property
    def consumer_group(self) -> str:
        return self._group

    @property
    def source_count(self) -> int:
        return self._source_count

    @property
    def node_id(self) -> int:
        return self._node_id

    @property
    def topics(self) -> dict[str, frozenset[str]]:
        """The topics that are read, and the tags each is filtered by. For a pattern, those found by the last look."""
        watch = self._topic_watch
        return dict(self._filters if watch is None else dict.fromkeys(watch.topics, frozenset()))

    def __repr__(self) -> str:
        state = "closed" if self.closed else "running" if self._running.begun else "not started"
        return f"<{type(self).__name__} of {self._group}, {self._place()}, {state}>"

    def _place(self) -> str:
        return f"node {self._node_id} of {self._source_count}" if self._source_count > 0 else "an unnumbered node"

    # How it runs

    def _now(self) -> Iterator[Sample]:
        """Its partitions and their lag."""
        with contextlib.suppress(TubeError):  # not started, or closed
            positions = self.positions()
            yield from lag_samples(
                self._group, rows_behind_by_topic(positions), Counter(key.topic for key in positions)
            )

    def _handle(self, event: object) -> None:
        """An event of a flow."""
        if isinstance(event, Assigned) and (assigned := self._on_assigned) is not None:
            call_back(lambda event: assigned(event.partition, event.offset), event)
        elif isinstance(event, Revoking) and (revoked := self._on_revoked) is not None:
            call_back(lambda event: revoked(event.partition), event)
        elif isinstance(event, Lost):
            self._running.report()
            if (lost := self._on_lost) is not None:
                call_back(lambda event: lost(event.partition, event.error), event)

    def _follow(self, event: GroupOrders | ClusterView | Forgotten | TubeError) -> None:
        """An event of the membership. After one that ended it reading continues; calls that need the layout raise the
        reason."""
        running = self._running
        if isinstance(event, GroupOrders):
            before, running.fetcher.orders = running.fetcher.orders, event
            if running.begun and event.jump_id != before.jump_id:
                _log.info("the master wants consumerGroup %s to go on with the latest messages", self._group)
                running.run(running.registrar.jump_to_latest())
        elif isinstance(event, ClusterView):
            running.follow(event)


def _end(close: Callable[[], None], running: Running) -> None:
    """The end of a consumer that nobody closed: by its own `close`, if it is still there."""
    close()
    running.end(0)
