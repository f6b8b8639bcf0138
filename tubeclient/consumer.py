"""Consuming as one client of a group that balances itself."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from tubeclient.errors import ConfigurationError, TubeError
from tubeclient.flows.consume import Expired
from tubeclient.flows.registrations import (
    EARLIEST,
    LATEST,
    STORED,
    Assigned,
    Lost,
    Revoking,
    StartFrom,
)
from tubeclient.group import GroupMembership
from tubeclient.keys import PartitionKey
from tubeclient.net.pool import ConnectionPool
from tubeclient.net.runner import Monitor
from tubeclient.settings import ClientSettings
from tubeclient.subscription import Topics, read_topics

__all__ = ["EARLIEST", "LATEST", "STORED", "ClientBalanceConsumer"]

_log = logging.getLogger(__name__)

_JOIN_SECONDS = 15.0
_STEP_MS = 250.0

T = TypeVar("T")


class ClientBalanceConsumer:
    """One client of `consumer_group`; which partitions it reads, and from where, is said by `connect`.

    `topics` are names, or a mapping of names to the tags to filter by (none: all messages), or a compiled pattern that
    names match as a whole (asked of the master's web port at `start`). All clients of a group must agree on topics,
    filters and `source_count`, and each must have a `node_id` of its own from 0 to source_count - 1; with a
    `source_count` below 0 the master checks neither. Dealing partitions to nodes is up to the caller: see `assign`,
    and `PullConsumer`, which does it.

    A partition that the group has no position for begins where `start_from` says; "always_latest" begins at the end
    whenever this consumer connects it first. Packs must be confirmed: until then the partition gives no other, and
    after `confirm_timeout_ms` it gives the same messages again. Up to `prefetch` packs are fetched ahead of `get`.
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

    >>> with ClientBalanceConsumer(settings, "etl", ["clicks"], source_count=2, node_id=0) as consumer:  # doctest: +SKIP
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
        self._callbacks: dict[type, Callable[[Any], None]] = {Expired: self._warn}
        if on_assigned is not None:
            self._callbacks[Assigned] = lambda event: on_assigned(event.partition, event.offset)
        if on_revoked is not None:
            self._callbacks[Revoking] = lambda event: on_revoked(event.partition)
        if on_lost is not None:
            self._callbacks[Lost] = lambda event: on_lost(event.partition, event.error)
        self._pattern, self._filters = read_topics(topics)
        self._metadata_interval_ms = metadata_interval_ms
        self._pool = ConnectionPool(settings)
        self._monitor = Monitor()
        self._lifecycle = threading.Lock()
        self._membership: GroupMembership | None = None
