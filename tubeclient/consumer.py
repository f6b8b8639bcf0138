"""Consuming as one client of a group that balances itself."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from tubeclient._version import __version__
from tubeclient.consumer_base import ConsumerBase
from tubeclient.errors import ClientClosed, StalePack
from tubeclient.flows.holdings import Delivery, Position
from tubeclient.flows.registrar import BootstrapOffset
from tubeclient.keys import PartitionKey
from tubeclient.settings import ClientSettings

__all__ = ["ClientBalanceConsumer"]

_log = logging.getLogger(__name__)

_STEP_MS = 250.0


class ClientBalanceConsumer(ConsumerBase):
    """One client of `consumer_group`; which partitions it reads, and from where, is said by `connect`.

    `topics` are names, or a mapping of names to the tags to filter by (none: all messages), or a compiled pattern that
    names match as a whole (asked of the master's web port at `start`). All clients of a group must agree on topics,
    filters and `source_count`, and each must have a `node_id` of its own from 0 to source_count - 1; with a
    `source_count` below 0 the master checks neither. Assigning partitions to nodes is up to the caller: see `assign`,
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
        names = self._names_now(self._pattern)
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
        return self._run(self._started().consumption.confirm(delivery, consumed=consumed))

    def confirm_async(self, delivery: Delivery, *, consumed: bool = True) -> None:
        """As `confirm`, without waiting for the broker's answer: about a fifth faster where packs follow each other.

        A later `get` or `wait_confirmed` looks at the answer; a failure is logged, and the messages come again, or may.
        `positions` shows the new position then. StalePack where the pack does not count any more.
        """
        self._run(self._started().consumption.confirm_async(delivery, consumed=consumed))

    def wait_confirmed(self, timeout_ms: float) -> bool:
        """Wait until all that was confirmed without waiting has been answered; false where it is not in time."""
        return self._run(self._started().consumption.wait_confirmed(timeout_ms))

    def __iter__(self) -> Iterator[Delivery]:
        """Packs, without end until the consumer is closed.

        Coming back for the next one confirms the last one, as `confirm_async` does, unless that was done; where it does
        not count any more, its messages come again. Leaving the loop leaves the last one unconfirmed.
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
                    self.confirm_async(delivery)
                except (StalePack, ClientClosed) as error:
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
        return f"<{type(self).__name__} of {self._group}, {self._place()}, {state}>"

    def _place(self) -> str:
        return (
            f"node {self._node_id} of {self._source_count}" if self._source_count > 0 else "a node that nobody counts"
        )
