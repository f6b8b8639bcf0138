"""Consumer groups of the master: members, and who may join (client-balance)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from embedded_tubemq.common.codes import Code
from embedded_tubemq.common.peer import Peer
from embedded_tubemq.common.refusal import Refusal
from tubeclient.keys import PartitionKey

__all__ = ["Consumer", "ConsumerGroup"]


@dataclass(slots=True)
class Consumer:
    """A client: its registration and its last report."""

    client_id: str
    source_count: int
    node_id: int
    peer: Peer
    deadline_ms: int
    partitions: tuple[PartitionKey, ...] = ()
    assigned_ms: int = -2
    """When the client last replaced its list of partitions; negative: never."""


@dataclass(slots=True)
class ConsumerGroup:
    """The first client sets topics, filters and source count; they hold until the group is empty."""

    name: str
    topics: frozenset[str]
    filters: Mapping[str, frozenset[str]]
    source_count: int
    consumers: dict[str, Consumer] = field(default_factory=dict)
    jump_to_end_id: int = -2
    """Order id (ms) of "consume from the end", which clients receive; negative: none."""

    def check(
        self, client_id: str, topics: frozenset[str], filters: Mapping[str, frozenset[str]], count: int, node: int
    ) -> None:
        """Refuse a client that does not fit the group, with the first reason in TubeMQ's order."""
        if topics != self.topics:
            raise Refusal(
                Code.TOPIC_SET_CONFLICT,
                f"{client_id} wants topics {sorted(topics)}; the group reads {sorted(self.topics)}",
            )
        if filters != self.filters:
            raise Refusal(
                Code.FILTER_SET_CONFLICT,
                f"{client_id} wants filters {_readable(filters)}; the group reads with {_readable(self.filters)}",
            )
        if self.source_count <= 0:
            return
        if count != self.source_count:
            raise Refusal(
                Code.SOURCE_COUNT_CONFLICT,
                f"{client_id} has sourceCount {count}; the group has {self.source_count}",
            )
        for other in self.consumers.values():
            if other.node_id == node and other.client_id != client_id:
                raise Refusal(
                    Code.NODE_ID_CONFLICT, f"nodeId {node}, wanted by {client_id}, belongs to {other.client_id}"
                )

    def expire(self, now_ms: int) -> list[str]:
        """Drop clients that were silent too long; returns their ids."""
        gone = [client_id for client_id, consumer in self.consumers.items() if now_ms >= consumer.deadline_ms]
        for client_id in gone:
            del self.consumers[client_id]
        return gone


def _readable(filters: Mapping[str, frozenset[str]]) -> dict[str, list[str]]:
    return {topic: sorted(tags) for topic, tags in sorted(filters.items())}
