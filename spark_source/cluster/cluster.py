"""Planning's view of a cluster, as protocols, and their implementation with the client. Tests implement them without
sockets."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from spark_source.cluster.membership import NOTHING, Membership, PatternMembership
from spark_source.offsets.timestamps import TimeLookup
from spark_source.options.parsers import ALL_TOPICS
from spark_source.options.subscription import Subscription
from tubeclient.admin import Admin
from tubeclient.broker_webs import BrokerWebs
from tubeclient.consumers.group import GroupMembership, fetch_view
from tubeclient.errors import ConfigurationError, ConnectError, TransportError, TubeError
from tubeclient.flows.message_pack import BadMessages
from tubeclient.keys import PartitionKey, StoreBounds, StoreKey
from tubeclient.metadata import ClusterView
from tubeclient.positions.offset_lookup import OffsetLook, OffsetLookup
from tubeclient.settings import ClientSettings
from tubeclient.web_port import naming_near

__all__ = [
    "Cluster",
    "Lookup",
    "PositionBooks",
    "TubeCluster",
    "check_scope",
    "default_node_count",
]

_log = logging.getLogger(__name__)


class Lookup(TimeLookup, Protocol):
    """First and last offsets, and positions of groups; see tubeclient.positions.offset_lookup.OffsetLookup."""

    def bounds(self, view: ClusterView) -> Mapping[StoreKey, StoreBounds]: ...
    def look(self, view: ClusterView) -> OffsetLook: ...
    def group_positions(self, view: ClusterView, consumer_group: str) -> Mapping[PartitionKey, int]: ...
    def close(self) -> None: ...


class PositionBooks(Protocol):
    """Reads and sets positions of groups on the brokers; see tubeclient.broker_webs.BrokerWebs."""

    def require(self, view: ClusterView, what_for: str) -> None: ...
    def answered_positions(
        self, view: ClusterView, group: str
    ) -> tuple[Mapping[PartitionKey, int], Mapping[int, TubeError]]: ...
    def set_group_positions(
        self, view: ClusterView, group: str, offsets: Mapping[PartitionKey, int], user: str
    ) -> None: ...


class Cluster(Protocol):
    """The planner's and batch reads' access to a cluster. Connects when a method is called."""

    def fetch_view(self) -> ClusterView:
        """The cluster's layout, without joining the group."""
        ...

    def membership(self, source_count: int) -> Membership:
        """The group's nodes, not joined yet."""
        ...

    def lookup(self) -> Lookup:
        """A new lookup; the caller closes it."""
        ...

    def position_books(self) -> PositionBooks:
        """The positions of groups on the brokers; for one thread at a time."""
        ...


class _Membership(GroupMembership):
    def join(self, patience_ms: float = 0) -> ClusterView:
        with naming_near(self._settings, self._nodes[0].topics):
            return super().join(patience_ms)


class TubeCluster:
    """The cluster of `settings`, limited to the topics of `subscription`."""

    def __init__(
        self, settings: ClientSettings, subscription: Subscription, bad_messages: BadMessages = "fail"
    ) -> None:
        self._settings = settings
        self._subscription = subscription
        self._bad_messages = bad_messages

    def fetch_view(self) -> ClusterView:
        read = self._subscription
        topics = read.topics if read.subscribe_pattern is None else self._matching_topics()
        if not topics:
            return NOTHING
        with naming_near(self._settings, topics):
            return fetch_view(self._settings, topics, read.reader_groups, read.tags_by_topic(topics))

    def membership(self, source_count: int) -> Membership:
        read = self._subscription

        def for_topics(topics: Sequence[str]) -> GroupMembership:
            return _Membership(
                self._settings,
                read.consumer_group,
                topics,
                source_count,
                filters={topic: tags for topic, tags in read.filters.items() if topic != ALL_TOPICS},
                tags=read.filters.get(ALL_TOPICS, ()),
                client_name="spark",
                refresh_interval_ms=read.partition_refresh_interval_ms,
            )

        if read.subscribe_pattern is None:
            return for_topics(read.topics)
        return PatternMembership(self._matching_topics, for_topics, read.partition_refresh_interval_ms)

    def lookup(self) -> Lookup:
        return OffsetLookup(self._settings, self._subscription.reader_groups, bad_messages=self._bad_messages)

    def position_books(self) -> PositionBooks:
        return BrokerWebs(self._settings)

    def _matching_topics(self) -> list[str]:
        try:
            names = Admin(self._settings).topic_names()
        except TransportError as error:
            raise ConnectError(
                f"subscribePattern needs the list of topics from a master's web port: {error}. Check "
                "masterWebPort, or name the topics with subscribe",
                condition="MASTER_UNREACHABLE",
            ) from error
        return [name for name in names if self._subscription.reads_topic(name)]


def check_scope(subscription: Subscription, view: ClusterView, known: Collection[PartitionKey] = ()) -> None:
    """Raise ConfigurationError for a topic, or a partition of `assign`, that the cluster does not have.

    Not for those in `known`, from the query's checkpoint: the cluster once had them, so failOnDataLoss decides. Some
    topics of a checkpoint may no longer be read; if none is, the checkpoint belongs to another query.
    """
    there = view.partitions()
    missing = sorted(set(subscription.topics) - {key.topic for key in (*there, *known)})
    if missing:
        raise ConfigurationError(
            f"no broker of the cluster has topic {missing[0]}; create and deploy it, or remove it from subscribe",
            condition="TOPIC_NOT_FOUND",
        )
    strange = sorted(set(subscription.assigned).difference(there, known))
    if strange:
        raise ConfigurationError(
            f"assign names partition {strange[0]}, which the cluster does not have; topic {strange[0].topic} has "
            f"{', '.join(str(key) for key in there if key.topic == strange[0].topic)}",
            condition="PARTITION_NOT_FOUND",
        )
    if known and not any(map(subscription.selector(), known)):
        raise ConfigurationError(
            f"the checkpoint is of {', '.join(sorted({key.topic for key in known}))}, and the query reads "
            f"{subscription.choice}; give it a checkpointLocation of its own",
            condition="OTHER_CHECKPOINT",
        )


def default_node_count(partitions: int, readers_per_partition: int) -> int:
    """Return the default of sourceCount: as many tasks as can read in parallel, at most this machine's cores.

    Spark tells the planner's process nothing about the session, so the driver machine's cores stand for the cluster's.
    """
    cores = os.cpu_count() or 1
    # Without any partition the count is still fixed now, and many partitions may come.
    count = min(partitions * readers_per_partition or cores, cores)
    _log.info("sourceCount is not set, using %d; on a cluster, set it to the number of cores that read", count)
    return count
