"""What clients ask of the master, checked; and its refusals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf.message import Message

from embedded_tubemq.common.catalogue import Catalogue
from embedded_tubemq.common.codes import Code
from embedded_tubemq.common.refusal import MAX_CLIENT_CHARS, MAX_GROUP_CHARS, Refusal, checked_name
from embedded_tubemq.master.groups import GroupKind, Joining
from tubeclient.errors import ConfigurationError, ProtocolError
from tubeclient.keys import PartitionKey
from tubeclient.wire.methods import Method
from tubeclient.wire.strings import parse_filters

__all__ = ["client_and_group", "deployed_topics", "joining_of", "refused", "topic_set"]

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


def joining_of(request: Any, client_id: str, group: str, kind: GroupKind, catalogue: Catalogue) -> Joining:
    """What a consumer that registers says of its group, checked in TubeMQ's order as far as it needs no group."""
    topics = deployed_topics(request.topicList, catalogue)
    details: dict[str, Any] = {}
    if kind is GroupKind.CLIENT_BALANCE:
        details = {"source_count": request.sourceCount, "node_id": request.nodeId}
        if request.sourceCount > 0 and not 0 <= request.nodeId < request.sourceCount:
            raise Refusal(Code.BAD_REQUEST, f"nodeId {request.nodeId} is not in [0, {request.sourceCount})")
    elif kind is GroupKind.BOUND:
        details = _bound_details(request, topics)
    filters = _filters(request.topicCondition)
    if not filters.keys() <= topics:
        raise Refusal(
            Code.BAD_REQUEST, f"filters for topics that are not subscribed: {sorted(filters.keys() - topics)}"
        )
    _check_authorized(group, topics, filters, catalogue)
    return Joining(client_id, kind, topics, filters, **details)


def refused(method: Method, refusal: Refusal) -> Message:
    """The answer to a refused call."""
    fields = {"errCode": int(refusal.code), "errMsg": refusal.text}
    known = method.spec.response.DESCRIPTOR.fields_by_name
    if "success" in known:
        fields["success"] = False
    if "brokerCheckSum" in known:
        fields["brokerCheckSum"] = -1
    return method.spec.response(**fields)


def _bound_details(request: Any, topics: frozenset[str]) -> dict[str, Any]:
    offsets: dict[PartitionKey, int] = {}
    for item in request.requiredPartition.split(",") if request.requiredPartition.strip() else ():
        name, _, offset = item.partition("=")
        try:
            key = PartitionKey.parse(name)
            offsets[key] = int(offset)
        except (ConfigurationError, ValueError) as error:
            raise Refusal(Code.BAD_REQUEST, f"{item!r} is not an offset of a partition, as in 1:topic:0=28") from error
        if key.topic not in topics:
            raise Refusal(Code.BAD_REQUEST, f"an offset for {key.topic}, which is not subscribed")
    session_key = request.sessionKey.strip()
    if not session_key:
        raise Refusal(Code.BAD_REQUEST, "offsets are given without a sessionKey")
    if request.totalCount <= 0:
        raise Refusal(Code.BAD_REQUEST, f"totalCount {request.totalCount} is not above zero")
    return {
        "source_count": request.totalCount,
        "session_key": session_key,
        "select_big": not request.HasField("selectBig") or request.selectBig,
        "offsets": offsets,
    }


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
