"""What masters and brokers report over HTTP, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tubeclient.keys import INDEX_ENTRY_BYTES, BrokerInfo, PartitionKey, TopicLayout, rows_behind


@dataclass(frozen=True, slots=True)
class BrokerState:
    """A broker in the master's configuration."""

    info: BrokerInfo
    tls_port: int
    """Its port for TLS; `takes_tls` says whether it is used."""
    web_port: int
    manage_status: str
    """As configured: draft, online, only-read, only-write or offline."""
    run_status: str
    """Whether it runs: running, notRegister (it is registering or unregistering) or unRegister (it never registered,
    unregistered or timed out)."""
    accepts_publish: bool
    accepts_subscribe: bool
    takes_tls: bool

    @property
    def web_address(self) -> str:
        """ "host:port" of its HTTP interface."""
        return f"{self.info.host}:{self.web_port}"

    @property
    def is_in_service(self) -> bool:
        """Whether it is online for readers or producers; it may not be running."""
        return self.manage_status in ("online", "only-read", "only-write")

    def is_at(self, broker: BrokerInfo) -> bool:
        """Whether it is the broker at that address. Over TLS, masters name the TLS port to clients."""
        info = self.info
        return info[:2] == broker[:2] and broker.port in (info.port, self.tls_port)

    def __str__(self) -> str:
        return str(self.info)


@dataclass(frozen=True, slots=True)
class TopicOnBroker:
    """A topic's layout on one broker."""

    topic: str
    broker: BrokerInfo
    stores: int
    partitions_per_store: int
    accepts_publish: bool
    accepts_subscribe: bool
    is_loaded: bool
    """Whether the broker has loaded it; otherwise stores and partitions are what the broker will create once it
    runs."""
    status: str
    """The progress of its deletion there: ok, soft deleted, soft removed or hard removed."""

    @property
    def layout(self) -> TopicLayout:
        """The layout as the master shows it to readers."""
        return TopicLayout(
            self.topic, self.broker.broker_id, self.stores, self.partitions_per_store, self.accepts_subscribe
        )


@dataclass(frozen=True, slots=True)
class DeployedTopic:
    """A topic and its brokers, sorted by id. `max_message_bytes` counts a payload with its attributes."""

    name: str
    max_message_bytes: int
    on_brokers: tuple[TopicOnBroker, ...]

    def partitions(self) -> list[PartitionKey]:
        """All its partitions, sorted."""
        return sorted(key for deployed in self.on_brokers for key in deployed.layout.partitions())


class GroupSummary(NamedTuple):
    """A consumer group with clients online."""

    name: str
    topics: frozenset[str]
    members: int


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A client of a group; `source_count` and `node_id` are None if it was started without them."""

    client_id: str
    host: str
    over_tls: bool
    source_count: int | None
    node_id: int | None
    partitions: tuple[PartitionKey, ...]
    """The partitions of its last report, sorted. A report may be a heartbeat late."""


@dataclass(frozen=True, slots=True)
class GroupDetail:
    """A group at the master. `filters` maps topics to filter tags; topics without a filter are missing.

    Without members, topics and filters are empty: the master forgets a group with its last client.
    """

    name: str
    kind: str
    """Who assigns its partitions: the master (unbound), the master with given start offsets (bound), or the clients
    (client-rebalance). A group without clients is unbound."""
    topics: frozenset[str]
    filters: Mapping[str, frozenset[str]] = field(hash=False)
    members: tuple[GroupMember, ...]


class PartitionPosition(NamedTuple):
    """A group's position in one partition; all three are bytes of the index."""

    partition: PartitionKey
    committed: int
    in_flight: int
    """Fetched beyond `committed` and not confirmed yet."""
    end: int
    """The current end of the partition's store."""

    @property
    def rows_behind(self) -> int:
        """The most rows that are left; exact if the store has one partition and nothing is filtered."""
        return max(0, self.end - self.committed) // INDEX_ENTRY_BYTES


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """The positions of a group, sorted by partition; without partitions that never had one."""

    group: str
    positions: tuple[PartitionPosition, ...]

    @property
    def committed(self) -> dict[PartitionKey, int]:
        """The committed positions by partition."""
        return {position.partition: position.committed for position in self.positions}

    @property
    def rows_behind(self) -> int:
        """The most rows that are left in these partitions; a shared store counts once."""
        ends = {position.partition: position.end for position in self.positions}
        return rows_behind(ends, self.committed)

    @property
    def beyond_end(self) -> tuple[PartitionKey, ...]:
        """Partitions whose position lies beyond their store's end, so that nothing is known of what is left: the topic
        was made anew, or the broker lost its newest messages."""
        return tuple(position.partition for position in self.positions if position.committed > position.end)
