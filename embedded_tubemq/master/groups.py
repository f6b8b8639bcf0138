"""Consumer groups of the master: their members, who may join, and what clients ask, checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from embedded_tubemq.common.catalogue import Catalogue, Peer
from embedded_tubemq.common.refusal import Code, Refusal, checked_name
from tubeclient.errors import ProtocolError
from tubeclient.keys import PartitionKey
from tubeclient.wire.strings import parse_filters


@dataclass(frozen=True, slots=True)
class Joining:
    """What a client that registers says of its group. All members say the same, but for client and node."""

    client_id: str
    topics: frozenset[str]
    filters: Mapping[str, frozenset[str]]
    """Tags by topic; topics without a filter are missing."""
    source_count: int = -2
    node_id: int = -2


@dataclass(slots=True)
class Consumer:
    """A client: its registration and its last report."""

    client_id: str
    source_count: int
    node_id: int
    peer: Peer
    deadline_ms: int
    partitions: tuple[PartitionKey, ...] = ()


@dataclass(slots=True)
class ConsumerGroup:
    """The first client sets everything that clients must agree on; it holds until the group is empty."""

    name: str
    first: Joining
    consumers: dict[str, Consumer] = field(default_factory=dict)

    def check(self, joining: Joining) -> None:
        """Refuse a client that does not fit the group, with the first reason in TubeMQ's order."""
        who, first = joining.client_id, self.first
        for code, what, wanted, current in (
            (Code.TOPIC_SET_CONFLICT, "topics", sorted(joining.topics), sorted(first.topics)),
            (Code.FILTER_SET_CONFLICT, "filters", _readable(joining.filters), _readable(first.filters)),
        ):
            if wanted != current:
                raise Refusal(code, f"{who} wants {what} {wanted}; the group reads {current}")
        if first.source_count <= 0:
            return
        if joining.source_count != first.source_count:
            raise Refusal(
                Code.SOURCE_COUNT_CONFLICT,
                f"{who} has sourceCount {joining.source_count}; the group has {first.source_count}",
            )
        for other in self.consumers.values():
            if other.node_id == joining.node_id and other.client_id != who:
                raise Refusal(
                    Code.NODE_ID_CONFLICT, f"nodeId {joining.node_id}, wanted by {who}, belongs to {other.client_id}"
                )

    def join(self, joining: Joining, peer: Peer, deadline_ms: int) -> Consumer:
        """Admit a client that `check` let pass, or renew it; returns it."""
        who, count, node = joining.client_id, joining.source_count, joining.node_id
        consumer = self.consumers.setdefault(who, Consumer(who, count, node, peer, deadline_ms))
        consumer.deadline_ms, consumer.node_id, consumer.source_count, consumer.peer = deadline_ms, node, count, peer
        return consumer


def _readable(filters: Mapping[str, frozenset[str]]) -> dict[str, list[str]]:
    return {topic: sorted(tags) for topic, tags in sorted(filters.items())}


def client_and_group(request: Any) -> tuple[str, str]:
    """Who asks, of which group; a 400 without one of them."""
    return checked_name(request.clientId, "clientId"), checked_name(request.groupName, "groupName")


def topic_set(names: Iterable[str]) -> frozenset[str]:
    """The names without blanks and repetitions."""
    return frozenset(name.strip() for name in names if name.strip())


def joining_of(request: Any, client_id: str, catalogue: Catalogue) -> Joining:
    """What a consumer that registers says of its group, checked in TubeMQ's order as far as it needs no group."""
    topics = topic_set(request.topicList)
    if not topics:
        raise Refusal(Code.BAD_REQUEST, "the request subscribes to no topic")
    missing = sorted(name for name in topics if catalogue.topic(name) is None)
    if missing:
        raise Refusal(Code.TOPIC_NOT_DEPLOYED, f"not deployed: {', '.join(missing)}")
    if request.sourceCount > 0 and not 0 <= request.nodeId < request.sourceCount:
        raise Refusal(Code.BAD_REQUEST, f"nodeId {request.nodeId} is not in [0, {request.sourceCount})")
    try:
        filters = {topic: tags for topic, tags in parse_filters(request.topicCondition).items() if tags}
    except ProtocolError as error:
        raise Refusal(Code.BAD_REQUEST, str(error)) from error
    if not filters.keys() <= topics:
        unknown = sorted(filters.keys() - topics)
        raise Refusal(Code.BAD_REQUEST, f"filters for topics that are not subscribed: {unknown}")
    return Joining(client_id, topics, filters, request.sourceCount, request.nodeId)
