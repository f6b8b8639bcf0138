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

    `topics` are names, or a mapping of names to the tags to filter by (none: all messages). `subscribe_pattern` takes
    their place: all topics whose whole name matches this regular expression, as a master's web port lists them, looked
    up by `partitions` and `connect` every `metadata_interval_ms`. All clients of a group must agree on topics, filters
    and `source_count`, and each must have its own `node_id` from 0 to source_count - 1. With a
    `source_count` below 0 the master checks neither. The caller assigns partitions to nodes: see `assign`.
    `PullConsumer` does it by itself.

    If the group has no position in a partition, reading begins where `start_from` says; with "always_latest" at the end
    whenever this consumer first connects a partition. Packs must be confirmed. Until then the partition gives no other
    pack, and after `confirm_timeout_ms` it gives the same messages again. Up to `prefetch` packs are fetched ahead of
    `get`. With `fail_on_data_loss` false, messages that expired are skipped with a warning in the log. With
    `bad_messages` "keep", messages that do not match their checksums or cannot be parsed are delivered with a
    `bad_reason`, with a warning in the log; else they are a CorruptMessage, again and again.

    Callbacks get one partition each: `on_assigned(partition, offset)` after it was connected, `on_revoked(partition)`
    before it is released, while its packs may still be confirmed, and `on_lost(partition, error)` after another
    client got it, or when it is no longer available. They run on the thread that did it or found out. What they raise
    is logged.

    `get` and `confirm` may be called by several threads. Close it, or use it as a context manager. Methods raise
    subclasses of TubeError, and ClientClosed after `close`. Apache's Java class of this name calls `connect`
    `connect2Partition`, `get` `getMessage`, `confirm` `confirmConsume`, `wait_ready` `isPartitionsReady`.

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
        """Register at the master. Returns this consumer. `with` does it too.

        The master takes a dead run of the same node for alive for 30 s, so 424 to 430 are tried again for
        `occupied_timeout_ms`. Raises the master's refusal (TopicNotDeployed, GroupConflict, NodeIdConflict,
        GroupForbidden, ...), or a ConnectError that names the masters; then the consumer is closed.
        """
        self.check_process()
        self._running.begin(given_ms(occupied_timeout_ms, "occupied_timeout_ms"), self._watch)
        return self

    def close(self, *, wait_ms: float = 0) -> None:
        """Give all partitions back, waiting up to `wait_ms` for packs that are out, and leave the group.

        `on_revoked` is called for each partition before. Unconfirmed packs are rolled back. All threads end.
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
        client of the group has it, and an unreachable broker are tried again for `timeout_ms`. With
        `fail_on_data_loss`, an offset that the broker does not hold is DataLoss.
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
        """Give a partition back. False if it is not connected.

        For `wait_ms` more, a pack of it that is out may be confirmed, by another thread or by `on_revoked`. Then it is
        rolled back.
        """
        checked_partition(partition)
        running = self._live()
        released = running.run(running.registrar.disconnect(partition, wait_ms=wait_ms))
        running.report()
        return released

    def registered(self) -> list[PartitionKey]:
        """The connected partitions, sorted."""
        return self._live().registered()

    def wait_ready(self, timeout_ms: float) -> bool:
        """Wait until a partition is connected. False if none is after `timeout_ms`."""
        running = self._live()
        return running.run(running.registrar.wait_registered(timeout_ms))

    def positions(self) -> dict[PartitionKey, Position]:
        """How far each connected partition was confirmed and fetched, and where its data ended by the broker's last
        answer.
        """
        return self._live().positions()

    # Messages

    def get(self, *, timeout_ms: float = 1_000) -> Delivery | None:
        """Return the next pack of messages of any connected partition, None if there was none for `timeout_ms`.

        Partitions take turns; one whose pack is not confirmed gives no other. Raises DataLoss, once, if messages
        expired before they were read, CorruptMessage if one does not match its checksum and bad ones are not kept, and
        ClientClosed.
        """
        running = self._live()
        return running.run(running.fetcher.get(timeout_ms=timeout_ms))

    def confirm(self, delivery: Delivery, *, consumed: bool = True) -> int:
        """Say that a pack was processed, or with `consumed` false, that it must be read again. Returns the position of
        the group afterwards: for a processed pack its exclusive end.

        StalePack if the pack does not count any more: it was confirmed, it was given up after `confirm_timeout_ms`, or
        its partition was moved, released or lost. After a TransportError the messages may come again. If the broker
        refuses for now (ServerBusy, for example because it is about to stop), they do.
        """
        self.check_process()
        running = self._running.started()
        return running.run(running.fetcher.confirm(delivery, consumed=consumed))

    def __iter__(self) -> Iterator[Delivery]:
        """Packs, without end until the consumer is closed.

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
        """Messages one by one, without end until the consumer is closed, each with its partition and, if it can be
        counted, its offset.

        A pack is confirmed when the message after its last one is asked for. If the loop ends before that, by an
        exception or `break`, the whole pack stays unconfirmed, and its messages come again. `message.delivery` is the
        pack, which may be confirmed by hand.
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
        """The settings in use: all arguments but callbacks, and the fields of `settings`, by their names. `json.dumps`
        takes the values. No passwords. Apache's class calls it `getConsumerConfig`."""
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
        """The topics that are read, and the tags each is filtered by. Of a pattern, those of the last look."""
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
