"""What the master says about a cluster: its brokers, and the layout of topics on them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from tubeclient.errors import TubeError
from tubeclient.keys import MAX_STORE_PARTITIONS, BrokerInfo, PartitionKey, StoreKey, TopicLayout


@dataclass(frozen=True)
class ClusterView:
    """Brokers by id, and the layout of each topic on each broker.

    Layouts on brokers that the master does not list are left out.
    """

    brokers: Mapping[int, BrokerInfo]
    layouts: tuple[TopicLayout, ...]
    visit_token: int | None = field(default=None, compare=False)
    """The master's token to show to brokers. It changes every few minutes, and old ones are valid for a while."""

    @classmethod
    def of(cls, brokers: Iterable[BrokerInfo], layouts: Iterable[TopicLayout]) -> ClusterView:
        """Build a view from lists in any order."""
        by_id = {broker.broker_id: broker for broker in brokers}
        return cls(by_id, tuple(sorted(layout for layout in layouts if layout.broker_id in by_id)))

    @cached_property
    def _layout_by_topic(self) -> dict[tuple[int, str], TopicLayout]:
        return {(layout.broker_id, layout.topic): layout for layout in self.layouts}

    @cached_property
    def _topics(self) -> frozenset[str]:
        return frozenset(layout.topic for layout in self.layouts)

    @cached_property
    def _partitions(self) -> list[PartitionKey]:
        return sorted(key for layout in self.layouts for key in layout.partitions())

    @cached_property
    def _stores(self) -> dict[StoreKey, list[PartitionKey]]:
        stores: dict[StoreKey, list[PartitionKey]] = {}
        for key in self._partitions:
            stores.setdefault(key.store, []).append(key)
        return stores

    def without(self, broker_ids: Collection[int]) -> ClusterView:
        """Return the view without some of its brokers and their layouts."""
        if not broker_ids:
            return self
        left = [broker for broker in self.brokers.values() if broker.broker_id not in broker_ids]
        return replace(ClusterView.of(left, self.layouts), visit_token=self.visit_token)

    def partitions(self) -> list[PartitionKey]:
        """Return all configured partitions, subscribable or not, sorted by broker id, topic and partition id."""
        return list(self._partitions)

    def stores(self) -> Mapping[StoreKey, Sequence[PartitionKey]]:
        """Return the configured partitions by store, both sorted."""
        return self._stores

    def layout_of(self, key: PartitionKey | StoreKey) -> TopicLayout | None:
        """Return the layout of the key's topic on its broker, or None if the cluster has none."""
        return self._layout_by_topic.get((key.broker_id, key.topic))

    def has(self, key: PartitionKey) -> bool:
        """Return whether the partition is configured."""
        layout = self.layout_of(key)
        store_id, number = divmod(key.partition_id, MAX_STORE_PARTITIONS)
        return layout is not None and store_id < layout.stores and number < layout.partitions_per_store

    def is_away(self, key: PartitionKey) -> bool:
        """Return whether the master shows nothing of the key's topic on its broker, while other brokers have the topic.

        Such a broker may come back with its data. Apache's master shows brokers that are down or offline. It omits only
        those whose configuration was deleted. A broker that is configured again is listed before its topics, because
        layouts are computed only every 30 to 60 s. So the list of brokers does not show when a broker is back.
        """
        return key.topic in self._topics and self.layout_of(key) is None

    def is_subscribable(self, key: PartitionKey) -> bool:
        """Return whether readers may connect to the partition now."""
        layout = self.layout_of(key)
        return layout is not None and self.has(key) and layout.subscribable

    def broker_of(self, key: PartitionKey | StoreKey) -> BrokerInfo:
        """Return the broker that holds the key.

        Raises:
            TubeError: The cluster does not list the broker.
        """
        broker = self.brokers.get(key.broker_id)
        if broker is None:
            known = ", ".join(map(str, sorted(self.brokers))) or "none"
            raise TubeError(f"the cluster lists no broker {key.broker_id}, which should hold {key}; it lists {known}")
        return broker


NO_TOPICS: Final = ClusterView.of([], [])
"""What a group reads while no topic matches its pattern."""
