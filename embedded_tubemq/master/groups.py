"""Consumer groups of the master: their members, who may join, and what clients ask, checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.message import Message

from embedded_tubemq.common.catalogue import Catalogue
from embedded_tubemq.common.codes import Code
from embedded_tubemq.common.peer import Peer
from embedded_tubemq.common.refusal import MAX_CLIENT_CHARS, MAX_GROUP_CHARS, Refusal, checked_name
from tubeclient.errors import ProtocolError
from tubeclient.keys import PartitionKey
from tubeclient.wire.methods import Method
from tubeclient.wire.strings import parse_filters

__all__ = [
    "Consumer",
    "ConsumerGroup",
    "Joining",
    "client_and_group",
    "deployed_topics",
    "joining_of",
    "refused",
    "topic_set",
]


@dataclass(frozen=True, slots=True)
class Joining:
    """What a client that registers says of its group. All members say the same, but for client and node."""

    client_id: str
    topics: frozenset[str]
    filters: Mapping[str, frozenset[str]]
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
    assigned_ms: int = -2
    """When it last replaced its list of partitions; negative: never."""


@dataclass(slots=True)
class ConsumerGroup:
    """The first client sets everything that clients must agree on; it holds until the group is empty."""

    name: str
    first: Joining
    consumers: dict[str, Consumer] = field(default_factory=dict)
    jump_to_end_id: int = -2
    """Order id (ms) of "consume from the end", which clients receive; negative: none."""

    @property
    def topics(self) -> frozenset[str]:
        return self.first.topics

    @property
    def filters(self) -> Mapping[str, frozenset[str]]:
        """Tags by topic; topics without a filter are missing."""
        return self.first.filters

    def check(self, joining: Joining) -> None:
        """Refuse a client that does not fit the group, with the first reason in TubeMQ's order."""
        who, first = joining.client_id, self.first
        if joining.topics != self.topics:
            raise Refusal(
                Code.TOPIC_SET_CONFLICT,
                f"{who} wants topics {sorted(joining.topics)}; the group reads {sorted(self.topics)}",
            )
        if joining.filters != self.filters:
            raise Refusal(
                Code.FILTER_SET_CONFLICT,
                f"{who} wants filters {_readable(joining.filters)}; the group reads with {_readable(self.filters)}",
            )
        if first.source_count > 0:
            if joining.source_count != first.source_count:
                raise Refusal(
                    Code.SOURCE_COUNT_CONFLICT,
                    f"{who} has sourceCount {joining.source_count}; the group has {first.source_count}",
                )
            for other in self.consumers.values():
                if other.node_id == joining.node_id and other.client_id != who:
                    raise Refusal(
                        Code.NODE_ID_CONFLICT,
                        f"nodeId {joining.node_id}, wanted by {who}, belongs to {other.client_id}",
                    )

    def join(self, joining: Joining, peer: Peer, deadline_ms: int) -> Consumer:
        """Admit a client that `check` let pass, or renew it; returns it."""
        count, node = joining.source_count, joining.node_id
        consumer = self.consumers.setdefault(
            joining.client_id, Consumer(joining.client_id, count, node, peer, deadline_ms)
        )
        consumer.deadline_ms, consumer.node_id, consumer.source_count, consumer.peer = deadline_ms, node, count, peer
        return consumer

    def expire(self, now_ms: int) -> list[str]:
        gone = [client_id for client_id, consumer in self.consumers.items() if now_ms >= consumer.deadline_ms]
        for client_id in gone:
            del self.consumers[client_id]
        return gone


def _readable(filters: Mapping[str, frozenset[str]]) -> dict[str, list[str]]:
    return {topic: sorted(tags) for topic, tags in sorted(filters.items())}


MAX_TOPICS = 1024


def client_and_group(request: Any) -> tuple[str, str]:
    """Who asks, of which group; a 400 without one of them."""
    return (
        checked_name(request.clientId, "clientId", MAX_CLIENT_CHARS),
        checked_name(request.groupName, "groupName", MAX_GROUP_CHARS),
    )


def topic_set(names: Iterable[str]) -> frozenset[str]:
    """The names without blanks and repetitions; a 400 if there are too many."""
    topics = frozenset(name.strip() for name in names if name.strip())
    if len(topics) > MAX_TOPICS:
        raise Refusal(Code.BAD_REQUEST, f"{len(topics)} topics; {MAX_TOPICS} are allowed")
    return topics


def deployed_topics(names: Iterable[str], catalogue: Catalogue) -> frozenset[str]:
    """What a consumer subscribes to: a 400 for nothing, a 431 for a topic that is not there."""
    topics = topic_set(names)
    if not topics:
        raise Refusal(Code.BAD_REQUEST, "the request subscribes to no topic")
    missing = sorted(name for name in topics if catalogue.topic(name) is None)
    if missing:
        raise Refusal(Code.TOPIC_NOT_DEPLOYED, f"not deployed: {', '.join(missing)}")
    return topics


def joining_of(request: Any, client_id: str, group: str, catalogue: Catalogue) -> Joining:
    """What a consumer that registers says of its group, checked in TubeMQ's order as far as it needs no group."""
    topics = deployed_topics(request.topicList, catalogue)
    if request.sourceCount > 0 and not 0 <= request.nodeId < request.sourceCount:
        raise Refusal(Code.BAD_REQUEST, f"nodeId {request.nodeId} is not in [0, {request.sourceCount})")
    filters = _filters(request.topicCondition)
    if not filters.keys() <= topics:
        raise Refusal(
            Code.BAD_REQUEST, f"filters for topics that are not subscribed: {sorted(filters.keys() - topics)}"
        )
    _check_authorized(group, topics, filters, catalogue)
    return Joining(client_id, topics, filters, request.sourceCount, request.nodeId)


def refused(method: Method, refusal: Refusal) -> Message:
    fields = {"errCode": int(refusal.code), "errMsg": refusal.text}
    known = method.spec.response.DESCRIPTOR.fields_by_name
    if "success" in known:
        fields["success"] = False
    if "brokerCheckSum" in known:
        fields["brokerCheckSum"] = -1
    return method.spec.response(**fields)


def _filters(texts: Iterable[str]) -> dict[str, frozenset[str]]:
    try:
        return {topic: tags for topic, tags in parse_filters(texts).items() if tags}
    except ProtocolError as error:
        raise Refusal(Code.BAD_REQUEST, str(error)) from error


def _check_authorized(
    group: str, topics: frozenset[str], filters: Mapping[str, frozenset[str]], catalogue: Catalogue
) -> None:
    for topic in filter(None, map(catalogue.topic, sorted(topics))):
        if topic.authorized_groups is not None and group not in topic.authorized_groups:
            raise Refusal(Code.GROUP_FORBIDDEN, f"group {group} is not authorised for topic {topic.name}")
        allowed = topic.allowed_tags.get(group)
        # A group restricted to some tags must filter by some of them; without a filter it would get everything.
        if allowed is not None and not (filters.get(topic.name) and filters[topic.name] <= allowed):
            raise Refusal(
                Code.FILTER_FORBIDDEN, f"group {group} may read topic {topic.name} with tags {sorted(allowed)} only"
            )
