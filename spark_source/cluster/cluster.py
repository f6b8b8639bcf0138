"""The cluster as planning sees it: the group's nodes at the master, and lookups at the brokers."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection

from spark_source.options.access import client_settings
from spark_source.options.parsers import ALL_TOPICS
from spark_source.options.source_options import SourceOptions
from spark_source.options.subscription import Subscription
from tubeclient.admin.broker_webs import BrokerWebs
from tubeclient.consumers.group import GroupMembership, fetch_view
from tubeclient.consumers.topic_watch import TopicWatch, matching_topics
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey
from tubeclient.metadata import NO_TOPICS, ClusterView
from tubeclient.positions.offset_lookup import OffsetLookup

_log = logging.getLogger(__name__)


class TubeCluster:
    """The cluster of `options`, limited to the topics that they name."""

    def __init__(self, options: SourceOptions) -> None:
        self._settings = client_settings(options)
        self._options = options

    def fetch_view(self) -> ClusterView:
        """The cluster's layout, without joining the group."""
        read = self._options
        topics = read.topics if read.subscribe_pattern is None else self._matching_topics()
        if not topics:
            return NO_TOPICS
        return fetch_view(self._settings, topics, read.reader_groups, read.tags_by_topic(topics))

    def membership(self, source_count: int) -> GroupMembership:
        """The group's nodes, not joined yet."""
        read = self._options
        interval_ms = read.partition_refresh_interval_ms
        watch = TopicWatch(self._matching_topics, interval_ms, pattern_option="subscribePattern")
        return GroupMembership(
            self._settings,
            read.consumer_group,
            read.topics if read.subscribe_pattern is None else watch,
            source_count,
            filters={topic: tags for topic, tags in read.filters.items() if topic != ALL_TOPICS},
            tags=read.filters.get(ALL_TOPICS, ()),
            client_name="spark",
            refresh_interval_ms=interval_ms,
        )

    def lookup(self) -> OffsetLookup:
        """A new lookup; the caller closes it."""
        return OffsetLookup(self._settings, self._options.reader_groups)

    def group_offsets(self) -> BrokerWebs:
        """The positions of groups on the brokers; for one thread at a time."""
        return BrokerWebs(self._settings)

    def _matching_topics(self) -> list[str]:
        pattern = self._options.subscribe_pattern
        assert pattern is not None
        return matching_topics(
            self._settings,
            pattern,
            pattern_option="subscribePattern",
            port_option="masterWebPort",
            topics_option="subscribe",
        )


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
            f"the checkpoint belongs to topics {', '.join(sorted({key.topic for key in known}))}, but the query "
            f"reads {subscription.choice}; give the query its own checkpointLocation",
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
