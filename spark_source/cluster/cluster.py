"""The cluster as planning sees it: the group's nodes at the master, and lookups at the brokers."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, TypeAlias

from spark_source.options.access import client_settings
from spark_source.options.parsers import ALL_TOPICS
from spark_source.options.source_options import SourceOptions
from spark_source.options.subscription import Subscription
from tubeclient.admin import Admin
from tubeclient.admin.broker_webs import BrokerWebs
from tubeclient.consumers.group import GroupMembership, fetch_view
from tubeclient.errors import (
    ClientClosed,
    ConfigurationError,
    ConnectError,
    TopicNotDeployed,
    TransportError,
    TubeError,
)
from tubeclient.keys import PartitionKey
from tubeclient.metadata import ClusterView
from tubeclient.positions.offset_lookup import OffsetLookup

_log = logging.getLogger(__name__)

NOTHING: Final = ClusterView.of([], [])
"""What to read while no topic matches."""


class PatternMembership:
    """Joins the group once a topic matches, and changes topics when the matches change.

    `look` lists the matching topics, and `make` makes the membership for some. A master cannot have a group without
    topics, so while none matches nothing is registered and the view is empty. `view` looks again every `interval_ms`; a
    failed look is a warning. A topic is dropped after two looks in a row without it.
    """

    def __init__(
        self,
        list_topics: Callable[[], Sequence[str]],
        make: Callable[[Sequence[str]], GroupMembership],
        interval_ms: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._list_topics = list_topics
        self._make = make
        self._interval_ms = interval_ms
        self._clock = clock
        self._occupied_timeout_ms: float = 0
        self._inner: GroupMembership | None = None
        self._topics: list[str] = []
        self._missed: set[str] = set()
        self._owned: Mapping[int, Sequence[PartitionKey]] = {}
        self._next_listing = 0.0
        self._blind = False
        self._closed = False

    def join(self, occupied_timeout_ms: float) -> ClusterView:
        """Look for topics and join for those that match, as GroupMembership.join does. Raises the look's error."""
        self._occupied_timeout_ms = occupied_timeout_ms
        self._next_listing = self._clock() + self._interval_ms / 1000
        self._change_to(sorted(self._list_topics()))
        if self._inner is None:
            _log.warning("no topic matches subscribePattern; waiting for one")
        return self.view()

    def view(self) -> ClusterView:
        """The topics' layout. Raises the error that ended the membership, if it has ended."""
        self._check_open()
        if self._clock() >= self._next_listing:
            self._next_listing = self._clock() + self._interval_ms / 1000
            try:
                found = self._list_topics()
            except TubeError as error:
                if not self._blind:
                    _log.warning("could not look for new topics; reading the known ones: %s", error)
                self._blind = True
            else:
                self._take(found)
        return NOTHING if self._inner is None else self._inner.view()

    def refreshed_view(self, timeout_ms: float) -> ClusterView:
        """Look for topics now, and get their layout from the master. Raises the look's error, or the membership's."""
        self._check_open()
        self._take(self._list_topics())
        return NOTHING if self._inner is None else self._inner.refreshed_view(timeout_ms)

    @property
    def visit_token(self) -> int | None:
        """The master's newest visit token for brokers."""
        return None if self._inner is None else self._inner.visit_token

    def report(self, owned: Mapping[int, Sequence[PartitionKey]]) -> None:
        """Report each node's partitions to the master, once there is a group."""
        self._owned = owned
        if self._inner is not None:
            self._inner.report(owned)

    def close(self) -> None:
        """Release the nodes."""
        self._closed = True
        self._leave()

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed("this membership is closed; make a new one")

    def _take(self, found: Sequence[str]) -> None:
        """Change to the topics of a look."""
        self._blind = False
        missed = set(self._topics).difference(found)
        self._missed, missed_before = missed, self._missed
        wanted = sorted({*found, *(missed - missed_before)})
        if wanted != self._topics:
            self._change_to(wanted)

    def _change_to(self, topics: list[str]) -> None:
        come, gone = sorted(set(topics) - set(self._topics)), sorted(set(self._topics) - set(topics))
        if come or gone:
            _log.info("subscribePattern: new topics: %s; removed: %s", _names(come), _names(gone))
        if not topics:
            self._leave()
        elif self._inner is not None:
            self._inner.change_topics(topics)
        elif not self._join(topics):
            return
        self._topics = topics

    def _join(self, topics: list[str]) -> bool:
        """Whether it worked: a topic deleted at this moment must not end the query."""
        # Store it first: a failed join must also release its nodes.
        self._inner = self._make(topics)
        try:
            self._inner.join(self._occupied_timeout_ms)
        except TopicNotDeployed as error:
            _log.warning("a topic was removed during the join, looking again: %s", error)
            self._leave()
            return False
        self._inner.report(self._owned)
        return True

    def _leave(self) -> None:
        inner, self._inner = self._inner, None
        if inner is not None:
            inner.close()


Membership: TypeAlias = GroupMembership | PatternMembership


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
            return NOTHING
        return fetch_view(self._settings, topics, read.reader_groups, read.tags_by_topic(topics))

    def membership(self, source_count: int) -> Membership:
        """The group's nodes, not joined yet."""
        read = self._options

        def for_topics(topics: Sequence[str]) -> GroupMembership:
            return GroupMembership(
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

    def lookup(self) -> OffsetLookup:
        """A new lookup; the caller closes it."""
        return OffsetLookup(self._settings, self._options.reader_groups)

    def group_offsets(self) -> BrokerWebs:
        """The positions of groups on the brokers; for one thread at a time."""
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
        return [name for name in names if self._options.reads_topic(name)]


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


def _names(topics: Sequence[str]) -> str:
    return ", ".join(topics) or "none"
