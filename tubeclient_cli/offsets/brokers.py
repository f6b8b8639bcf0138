"""What brokers and master say about a group's topics, looked up once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from functools import cached_property

from offsets_store import GroupKey
from spark_source.cluster.cluster import TubeCluster
from spark_source.options.access import client_settings
from spark_source.options.given import parse_options
from tubeclient.admin import Admin, GroupMember
from tubeclient.admin.broker_webs import own_web
from tubeclient.keys import PartitionKey, StoreBounds, StoreKey
from tubeclient.metadata import ClusterView
from tubeclient.positions.offset_lookup import FirstTime, OffsetLook, OffsetLookup
from tubeclient_cli.common.cluster import with_web_port
from tubeclient_cli.common.pairs import further_options

__all__ = ["Brokers", "brokers_of"]

_FLAGS = {"offsetstable": "--offsets-table", "subscribepattern": "--topic-pattern", "messagetimezone": "--time-zone"}


class Brokers:
    """The part of the cluster of `master_servers` that has the topics of `key`. `options` are the source's connection
    options.

    Connects on first use. Methods and properties raise TubeError.
    """

    def __init__(self, master_servers: str, key: GroupKey, options: Mapping[str, str]) -> None:
        topics = {"subscribe": ",".join(key.topics)} if key.pattern is None else {"subscribePattern": key.pattern}
        parsed = parse_options(
            {**with_web_port(options), "masterServers": master_servers, "consumerGroup": key.consumer_group} | topics
        )
        self._group = key.consumer_group
        self._options = parsed
        self._settings = client_settings(parsed)
        self._cluster = TubeCluster(self._settings, parsed)

    @cached_property
    def lookup(self) -> OffsetLookup:
        return OffsetLookup(self._settings, self._options.reader_groups)

    @cached_property
    def view(self) -> ClusterView:
        """The existing partitions."""
        return self._cluster.fetch_view()

    @cached_property
    def bounds(self) -> Mapping[StoreKey, StoreBounds]:
        """Each store's bounds, as of the first call."""
        return self.lookup.bounds(self.view)

    @cached_property
    def look(self) -> OffsetLook:
        """The bounds of the stores whose brokers answer, as of the first call."""
        return self.lookup.look(self.view)

    def first_times(
        self, positions: Mapping[PartitionKey, int], bounds: Mapping[StoreKey, StoreBounds], time_zone: str
    ) -> Mapping[PartitionKey, FirstTime]:
        """When the oldest message behind each position came. `bounds` are those of their stores."""
        ranges = {
            partition: StoreBounds(bounds[partition.store].nearest(position), bounds[partition.store].max_offset)
            for partition, position in positions.items()
        }
        return self.lookup.first_times(self.view, ranges, time_zone=time_zone)

    def consumers(self) -> tuple[GroupMember, ...]:
        """The group's clients that the master knows, including Spark queries."""
        return tuple(Admin(own_web(self._settings)).group(self._group).members)

    def close(self) -> None:
        """End threads and connections."""
        if "lookup" in self.__dict__:
            self.lookup.close()


@contextlib.contextmanager
def brokers_of(master_servers: str, key: GroupKey, options: list[str] | None) -> Iterator[Brokers]:
    """The part of the cluster that `key` reads. ConfigurationError."""
    brokers = Brokers(master_servers, key, further_options(options, _FLAGS))
    try:
        yield brokers
    finally:
        brokers.close()
