"""The master as a state machine: calls in, answers out; the caller supplies the time; no I/O.

It keeps producers and consumers (client-balance), refuses clients that do not fit their group, and tells clients the
layout. It refuses server-balance, where the master assigns partitions: this project's clients do not use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.message import Message

from embedded_tubemq.common.authentication import Authenticator
from embedded_tubemq.common.catalogue import DEFAULT_MAX_MESSAGE_BYTES, Catalogue
from embedded_tubemq.common.codes import Code
from embedded_tubemq.common.faults import Faults
from embedded_tubemq.common.peer import NOBODY, Peer
from embedded_tubemq.common.refusal import (
    MAX_CLIENT_CHARS,
    MAX_GROUP_CHARS,
    MAX_HOST_CHARS,
    Refusal,
    StandbyRefusal,
    checked_name,
)
from embedded_tubemq.master.groups import Consumer, ConsumerGroup
from tubeclient.errors import ProtocolError
from tubeclient.wire.methods import Method
from tubeclient.wire.proto import master_pb2
from tubeclient.wire.signature import Signed
from tubeclient.wire.strings import encode_consumer_layouts, encode_producer_layouts, parse_filters, parse_report

__all__ = ["Master", "MasterSettings", "Producer"]

MAX_TOPICS = 1024


@dataclass(frozen=True, slots=True)
class MasterSettings:
    """Times in ms. `users` maps names to passwords; without users there is no authentication."""

    lease_ms: int = 30_000
    metadata_push_ms: int = 180_000
    users: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Producer:
    """A producer: its registration and its last report."""

    client_id: str
    host: str
    deadline_ms: int
    topics: tuple[str, ...] = ()


class Master:
    """One active master."""

    def __init__(
        self, catalogue: Catalogue, settings: MasterSettings | None = None, faults: Faults | None = None
    ) -> None:
        self.catalogue = catalogue
        self.settings = settings or MasterSettings()
        self.faults = faults or Faults()
        self.groups: dict[str, ConsumerGroup] = {}
        self.producers: dict[str, Producer] = {}
        self._authenticator = Authenticator(self.settings.users)
        self._calls: dict[Method, Callable[[Any, int, Peer], Message]] = {
            Method.PRODUCER_REGISTER: self._register_producer,
            Method.PRODUCER_HEARTBEAT: self._heartbeat_producer,
            Method.PRODUCER_CLOSE: self._close_producer,
            Method.CONSUMER_REGISTER: self._refuse_server_balance,
            Method.CONSUMER_HEARTBEAT: self._forget_server_balance,
            Method.CONSUMER_CLOSE: self._close_consumer,
            Method.CONSUMER_REGISTER_V2: self._register_consumer,
            Method.CONSUMER_HEARTBEAT_V2: self._heartbeat_consumer,
            Method.PARTITION_METADATA: self._partition_metadata,
        }
        self.methods = frozenset(self._calls)
        """The calls it answers."""

    def handle(self, method: Method, request: Message, now_ms: int, peer: Peer = NOBODY) -> Message:
        """Answer one call. Raises StandbyRefusal if the master acts as a standby."""
        self.tick(now_ms)
        forced = self.faults.take_forced(method)
        try:
            if forced is not None:
                raise Refusal(forced.code, "forced by a fault")
            self._authenticate(request, now_ms)
            return self._calls[method](request, now_ms, peer)
        except Refusal as refusal:
            return _refused(method, refusal)

    serve = handle

    def tick(self, now_ms: int) -> None:
        """Drop clients with an expired lease and empty groups; renew the visit token."""
        self.catalogue.visit_tokens.tick(now_ms)
        for group in list(self.groups.values()):
            group.expire(now_ms)
            self._drop_if_empty(group)
        for producer in [item for item in self.producers.values() if now_ms >= item.deadline_ms]:
            del self.producers[producer.client_id]

    def order_jump_to_end(self, group_name: str, now_ms: int) -> bool:
        """Tell the group's clients to continue from the end; False if the group is empty."""
        group = self.groups.get(group_name)
        if group is None:
            return False
        group.jump_to_end_id = now_ms
        return True

    # Producers

    def _register_producer(self, request: Any, now_ms: int, peer: Peer) -> Message:
        client_id = checked_name(request.clientId, "clientId", MAX_CLIENT_CHARS)
        host = checked_name(request.hostName, "hostName", MAX_HOST_CHARS)
        topics = _topic_set(request.topicList)
        self._check_active()
        self.producers[client_id] = Producer(client_id, host, now_ms + self.settings.lease_ms, tuple(sorted(topics)))
        response = master_pb2.RegisterResponseM2P(success=True, errCode=Code.SUCCESS, errMsg="OK!")
        response.brokerCheckSum = self.catalogue.broker_version
        response.brokerInfos.extend(self._broker_list(peer))
        self._grant(response.authorizedInfo)
        self._client_config(request, response)
        return response

    def _heartbeat_producer(self, request: Any, now_ms: int, peer: Peer) -> Message:
        client_id = checked_name(request.clientId, "clientId", MAX_CLIENT_CHARS)
        checked_name(request.hostName, "hostName", MAX_HOST_CHARS)
        topics = _topic_set(request.topicList)
        self._check_active()
        producer = self.producers.get(client_id)
        if producer is None:
            raise Refusal(Code.HB_NO_NODE, f"producer {client_id} is not registered")
        producer.deadline_ms = now_ms + self.settings.lease_ms
        producer.topics = tuple(sorted(topics))
        response = master_pb2.HeartResponseM2P(success=True, errCode=Code.SUCCESS, errMsg="OK!")
        response.brokerCheckSum = self.catalogue.broker_version
        if request.brokerCheckSum != self.catalogue.broker_version:
            response.brokerInfos.extend(self._broker_list(peer))
        for name in producer.topics:
            topic = self.catalogue.topic(name)
            if topic is not None:
                layouts = self.catalogue.producer_layouts(name)
                response.topicInfos.extend(encode_producer_layouts(layouts, topic.max_message_bytes))
        self._grant(response.authorizedInfo)
        response.requireAuth = self._authenticator.enabled
        self._client_config(request, response)
        return response

    def _close_producer(self, request: Any, now_ms: int, peer: Peer) -> Message:
        client_id = checked_name(request.clientId, "clientId", MAX_CLIENT_CHARS)
        self._check_active()
        self.producers.pop(client_id, None)
        return master_pb2.CloseResponseM2P(success=True, errCode=Code.SUCCESS, errMsg="OK!")

    # Consumers, client-balance

    def _register_consumer(self, request: Any, now_ms: int, peer: Peer) -> Message:
        client_id = checked_name(request.clientId, "clientId", MAX_CLIENT_CHARS)
        checked_name(request.hostName, "hostName", MAX_HOST_CHARS)
        group_name = checked_name(request.groupName, "groupName", MAX_GROUP_CHARS)
        self._check_active()
        topics = _topic_set(request.topicList)
        if not topics:
            raise Refusal(Code.BAD_REQUEST, "the request subscribes to no topic")
        missing = sorted(name for name in topics if self.catalogue.topic(name) is None)
        if missing:
            raise Refusal(Code.TOPIC_NOT_DEPLOYED, f"not deployed: {', '.join(missing)}")
        count, node = request.sourceCount, request.nodeId
        if count > 0 and not 0 <= node < count:
            raise Refusal(Code.BAD_REQUEST, f"nodeId {node} is not in [0, {count})")
        filters = _filters(request.topicCondition)
        if not filters.keys() <= topics:
            raise Refusal(
                Code.BAD_REQUEST, f"filters for topics that are not subscribed: {sorted(filters.keys() - topics)}"
            )
        self._check_authorized(group_name, topics, filters)
        group = self.groups.get(group_name)
        if group is None:
            group = ConsumerGroup(group_name, topics, filters, count)
        else:
            group.check(client_id, topics, filters, count, node)
        self.groups[group_name] = group
        consumer = group.consumers.get(client_id)
        if consumer is None:
            consumer = group.consumers[client_id] = Consumer(client_id, count, node, peer, 0)
        consumer.node_id, consumer.source_count, consumer.peer = node, count, peer
        consumer.deadline_ms = now_ms + self.settings.lease_ms
        self._take_report(consumer, request)
        response = master_pb2.RegisterResponseM2CV2(errCode=Code.SUCCESS, errMsg="OK!")
        self._add_brokers(response, _known_brokers(request), peer)
        self._add_orders(response.opsTaskInfo, group, request.opsTaskInfo)
        self._grant(response.authorizedInfo)
        return response

    def _heartbeat_consumer(self, request: Any, now_ms: int, peer: Peer) -> Message:
        group, consumer = self._known_consumer(request, now_ms)
        self._take_report(consumer, request)
        response = master_pb2.HeartResponseM2CV2(errCode=Code.SUCCESS, errMsg="OK!")
        self._add_brokers(response, _known_brokers(request), peer)
        if consumer.partitions and 0 <= consumer.assigned_ms < now_ms - self.settings.metadata_push_ms:
            self._add_topics(response, group, request.subRepInfo.topicMetaInfoId)
        self._add_orders(response.opsTaskInfo, group, request.opsTaskInfo)
        self._grant(response.authorizedInfo)
        return response

    def _partition_metadata(self, request: Any, now_ms: int, peer: Peer) -> Message:
        group, _ = self._known_consumer(request, now_ms)
        response = master_pb2.GetPartMetaResponseM2C(errCode=Code.SUCCESS, errMsg="OK!")
        self._add_topics(response, group, request.topicMetaInfoId)
        self._add_brokers(response, request.brokerConfigId, peer)
        return response

    def _close_consumer(self, request: Any, now_ms: int, peer: Peer) -> Message:
        client_id = checked_name(request.clientId, "clientId", MAX_CLIENT_CHARS)
        group_name = checked_name(request.groupName, "groupName", MAX_GROUP_CHARS)
        self._check_active()
        group = self.groups.get(group_name)
        if group is not None:
            group.consumers.pop(client_id, None)
            self._drop_if_empty(group)
        return master_pb2.CloseResponseM2C(success=True, errCode=Code.SUCCESS, errMsg="OK!")

    def _known_consumer(self, request: Any, now_ms: int) -> tuple[ConsumerGroup, Consumer]:
        client_id = checked_name(request.clientId, "clientId", MAX_CLIENT_CHARS)
        group_name = checked_name(request.groupName, "groupName", MAX_GROUP_CHARS)
        self._check_active()
        group = self.groups.get(group_name)
        if group is None:
            raise Refusal(Code.HB_NO_NODE, f"nobody is registered in group {group_name}")
        consumer = group.consumers.get(client_id)
        if consumer is None:
            raise Refusal(Code.HB_NO_NODE, f"client {client_id} is not registered in group {group_name}")
        consumer.deadline_ms = now_ms + self.settings.lease_ms
        return group, consumer

    # Server-balance, not offered

    def _refuse_server_balance(self, request: Any, now_ms: int, peer: Peer) -> Message:
        self._check_active()
        if request.groupName.strip() in self.groups:
            raise Refusal(Code.CONSUME_TYPE_CONFLICT, f"group {request.groupName} consumes with client-balance")
        raise Refusal(Code.BAD_REQUEST, "this embedded master offers client-balance only, no server-balance")

    def _forget_server_balance(self, request: Any, now_ms: int, peer: Peer) -> Message:
        self._check_active()
        raise Refusal(Code.HB_NO_NODE, f"client {request.clientId} is not registered")

    # Checks and parts of answers

    def _check_active(self) -> None:
        if self.faults.standby:
            raise StandbyRefusal("this master is a standby")

    def _authenticate(self, request: Any, now_ms: int) -> None:
        if not self._authenticator.enabled:
            return
        if not request.HasField("authInfo") or not request.authInfo.HasField("authInfo"):
            raise Refusal(Code.CERTIFICATE_FAILURE, "a user and a signature are required")
        info = request.authInfo.authInfo
        self._authenticator.check(Signed(info.userName, info.timestamp, info.nonce, info.signature), now_ms)

    def _check_authorized(self, group: str, topics: frozenset[str], filters: Mapping[str, frozenset[str]]) -> None:
        for topic in filter(None, map(self.catalogue.topic, sorted(topics))):
            if topic.authorized_groups is not None and group not in topic.authorized_groups:
                raise Refusal(Code.GROUP_FORBIDDEN, f"group {group} is not authorised for topic {topic.name}")
            allowed = topic.allowed_tags.get(group)
            # A group restricted to some tags must filter by some of them; without a filter it would get everything.
            if allowed is not None and not (filters.get(topic.name) and filters[topic.name] <= allowed):
                raise Refusal(
                    Code.FILTER_FORBIDDEN, f"group {group} may read topic {topic.name} with tags {sorted(allowed)} only"
                )

    def _take_report(self, consumer: Consumer, request: Any) -> None:
        if not request.HasField("subRepInfo"):
            return
        report = request.subRepInfo
        if report.HasField("lstAssignedTime"):
            consumer.assigned_ms = report.lstAssignedTime
        if report.reportSubInfo:
            try:
                consumer.partitions = tuple(sorted(parse_report(report.partSubInfo)))
            except ProtocolError as error:
                raise Refusal(Code.BAD_REQUEST, str(error)) from error

    def _drop_if_empty(self, group: ConsumerGroup) -> None:
        if not group.consumers:
            self.groups.pop(group.name, None)

    def _broker_list(self, peer: Peer) -> list[str]:
        return [str(broker.info_for(peer)) for broker in self.catalogue.brokers()]

    def _add_brokers(self, response: Any, known_version: int | None, peer: Peer) -> None:
        response.brokerConfigId = self.catalogue.broker_version
        if known_version != self.catalogue.broker_version:
            response.brokerConfigList.extend(self._broker_list(peer))

    def _add_topics(self, response: Any, group: ConsumerGroup, known_version: int) -> None:
        hidden = self.faults.take_hidden(group.topics)
        # A list with a topic left out differs from the whole list, so it needs another version.
        version = self.catalogue.topic_version - bool(hidden)
        response.topicMetaInfoId = version
        if known_version != version:
            shown = self.catalogue.consumer_layouts(group.topics - hidden)
            response.topicMetaInfoList.extend(encode_consumer_layouts(shown))

    def _add_orders(self, orders: Any, group: ConsumerGroup, known: Any) -> None:
        orders.requireAuth = self._authenticator.enabled
        if group.jump_to_end_id >= 0:
            orders.csmFrmMaxOffsetCtrlId = group.jump_to_end_id
        self.catalogue.flow_rules.add_to(orders, group.name, known)

    def _grant(self, grant: Any) -> None:
        grant.visitAuthorizedToken = self.catalogue.visit_tokens.for_clients

    def _client_config(self, request: Any, response: Any) -> None:
        # Clients get the largest message size only if they ask for it, with the version they know.
        if not request.HasField("appdConfig"):
            return
        response.appdConfig.configId = self.catalogue.broker_version
        if request.appdConfig.configId != self.catalogue.broker_version:
            response.appdConfig.maxMsgSize = DEFAULT_MAX_MESSAGE_BYTES


def _known_brokers(request: Any) -> int | None:
    """The version of the broker list that a consumer has."""
    return request.subRepInfo.brokerConfigId if request.HasField("subRepInfo") else None


def _topic_set(names: Iterable[str]) -> frozenset[str]:
    topics = frozenset(name.strip() for name in names if name.strip())
    if len(topics) > MAX_TOPICS:
        raise Refusal(Code.BAD_REQUEST, f"{len(topics)} topics; {MAX_TOPICS} are allowed")
    return topics


def _filters(texts: Iterable[str]) -> dict[str, frozenset[str]]:
    try:
        return {topic: tags for topic, tags in parse_filters(texts).items() if tags}
    except ProtocolError as error:
        raise Refusal(Code.BAD_REQUEST, str(error)) from error


def _refused(method: Method, refusal: Refusal) -> Message:
    fields = {"errCode": int(refusal.code), "errMsg": refusal.text}
    known = method.spec.response.DESCRIPTOR.fields_by_name
    if "success" in known:
        fields["success"] = False
    if "brokerCheckSum" in known:
        fields["brokerCheckSum"] = -1
    return method.spec.response(**fields)
