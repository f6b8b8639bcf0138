"""The master as a state machine: calls in, answers out; the caller supplies the time; no I/O.

It keeps producers and consumers, refuses clients that do not fit their group, and tells clients the layout. Groups
assign their partitions themselves (client-balance: RPC 20 to 22). Groups that leave it to the master are not served.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.message import Message

from embedded_tubemq.common.catalogue import DEFAULT_MAX_MESSAGE_BYTES, Catalogue
from embedded_tubemq.common.codes import Code
from embedded_tubemq.common.faults import Faults
from embedded_tubemq.common.peer import NOBODY, Peer
from embedded_tubemq.common.refusal import (
    MAX_CLIENT_CHARS,
    MAX_HOST_CHARS,
    Authenticator,
    Refusal,
    StandbyRefusal,
    checked_name,
)
from embedded_tubemq.master.groups import (
    Consumer,
    ConsumerGroup,
    client_and_group,
    joining_of,
    refused,
    topic_set,
)
from tubeclient.errors import ProtocolError
from tubeclient.wire.methods import Method
from tubeclient.wire.proto import master_pb2
from tubeclient.wire.signature import Signed
from tubeclient.wire.strings import encode_consumer_layouts, encode_producer_layouts, parse_report

__all__ = ["Master", "MasterSettings"]

_QUERY_PRIORITY = 301
"""A group's default (TServerConstants.QRY_PRIORITY_DEF_VALUE)."""


@dataclass(frozen=True, slots=True)
class MasterSettings:
    """Times in ms. `users` maps names to passwords; without users there is no authentication."""

    lease_ms: int = 30_000
    metadata_push_ms: int = 180_000
    users: Mapping[str, str] = field(default_factory=dict, repr=False)


class Master:
    def __init__(
        self, catalogue: Catalogue, settings: MasterSettings | None = None, faults: Faults | None = None
    ) -> None:
        self.catalogue = catalogue
        self.settings = settings or MasterSettings()
        self.faults = faults or Faults()
        self.groups: dict[str, ConsumerGroup] = {}
        self.producers: dict[str, int] = {}
        """When their leases end, in ms, by client id."""
        self._authenticator = Authenticator(self.settings.users)
        self._calls: dict[Method, Callable[[Any, int, Peer], Message]] = {
            Method.PRODUCER_REGISTER: self._register_producer,
            Method.PRODUCER_HEARTBEAT: self._heartbeat_producer,
            Method.PRODUCER_CLOSE: self._close_producer,
            Method.CONSUMER_CLOSE: self._close_consumer,
            Method.CONSUMER_REGISTER_V2: self._register_consumer,
            Method.CONSUMER_HEARTBEAT_V2: self._heartbeat_consumer,
            Method.PARTITION_METADATA: self._partition_metadata,
        }
        self.methods = frozenset(self._calls)

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
            return refused(method, refusal)

    serve = handle

    def tick(self, now_ms: int) -> None:
        for group in list(self.groups.values()):
            group.expire(now_ms)
            self._drop_if_empty(group)
        self.producers = {client_id: ends for client_id, ends in self.producers.items() if now_ms < ends}

    def order_jump_to_end(self, group_name: str, now_ms: int) -> bool:
        """Tell a group's clients to continue from the end; False if there is no such group."""
        group = self.groups.get(group_name)
        if group is None:
            return False
        group.jump_to_end_id = now_ms
        return True

    # Producers

    def _register_producer(self, request: Any, now_ms: int, peer: Peer) -> Message:
        client_id = checked_name(request.clientId, "clientId", MAX_CLIENT_CHARS)
        checked_name(request.hostName, "hostName", MAX_HOST_CHARS)
        topic_set(request.topicList)
        self._check_active()
        self.producers[client_id] = now_ms + self.settings.lease_ms
        response = master_pb2.RegisterResponseM2P(success=True, errCode=Code.SUCCESS, errMsg="OK!")
        response.brokerCheckSum = self.catalogue.broker_version
        response.brokerInfos.extend(self._broker_list(peer))
        self._grant(response.authorizedInfo)
        self._client_config(request, response)
        return response

    def _heartbeat_producer(self, request: Any, now_ms: int, peer: Peer) -> Message:
        client_id = checked_name(request.clientId, "clientId", MAX_CLIENT_CHARS)
        checked_name(request.hostName, "hostName", MAX_HOST_CHARS)
        topics = topic_set(request.topicList)
        self._check_active()
        if client_id not in self.producers:
            raise Refusal(Code.HB_NO_NODE, f"producer {client_id} is not registered")
        self.producers[client_id] = now_ms + self.settings.lease_ms
        response = master_pb2.HeartResponseM2P(success=True, errCode=Code.SUCCESS, errMsg="OK!")
        response.brokerCheckSum = self.catalogue.broker_version
        if request.brokerCheckSum != self.catalogue.broker_version:
            response.brokerInfos.extend(self._broker_list(peer))
        for name in sorted(topics):
            topic = self.catalogue.topic(name)
            if topic is not None:
                layouts = self.catalogue.producer_layouts(name)
                response.topicInfos.extend(encode_producer_layouts(layouts, topic.max_message_bytes))
        self._grant(response.authorizedInfo)
        if self._authenticator.enabled:  # as in Apache's answers, absent otherwise
            response.requireAuth = True
        self._client_config(request, response)
        return response

    def _close_producer(self, request: Any, now_ms: int, peer: Peer) -> Message:
        client_id = checked_name(request.clientId, "clientId", MAX_CLIENT_CHARS)
        self._check_active()
        self.producers.pop(client_id, None)
        return master_pb2.CloseResponseM2P(success=True, errCode=Code.SUCCESS, errMsg="OK!")

    # Consumers

    def _register_consumer(self, request: Any, now_ms: int, peer: Peer) -> Message:
        group, consumer = self._admit(request, now_ms, peer)
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

    def _admit(self, request: Any, now_ms: int, peer: Peer) -> tuple[ConsumerGroup, Consumer]:
        client_id = checked_name(request.clientId, "clientId", MAX_CLIENT_CHARS)
        checked_name(request.hostName, "hostName", MAX_HOST_CHARS)
        _, group_name = client_and_group(request)
        self._check_active()
        joining = joining_of(request, client_id, group_name, self.catalogue)
        group = self.groups.get(group_name)
        if group is None:
            group = self.groups[group_name] = ConsumerGroup(group_name, joining)
        else:
            group.check(joining)
        return group, group.join(joining, peer, now_ms + self.settings.lease_ms)

    def _close_consumer(self, request: Any, now_ms: int, peer: Peer) -> Message:
        client_id, group_name = client_and_group(request)
        self._check_active()
        group = self.groups.get(group_name)
        if group is not None:
            group.consumers.pop(client_id, None)
            self._drop_if_empty(group)
        return master_pb2.CloseResponseM2C(success=True, errCode=Code.SUCCESS, errMsg="OK!")

    def _known_consumer(self, request: Any, now_ms: int) -> tuple[ConsumerGroup, Consumer]:
        client_id, group_name = client_and_group(request)
        self._check_active()
        group = self.groups.get(group_name)
        if group is None:
            raise Refusal(Code.HB_NO_NODE, f"nobody is registered in group {group_name}")
        consumer = group.consumers.get(client_id)
        if consumer is None:
            raise Refusal(Code.HB_NO_NODE, f"client {client_id} is not registered in group {group_name}")
        consumer.deadline_ms = now_ms + self.settings.lease_ms
        return group, consumer

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
        response.topicMetaInfoId = self.catalogue.topic_version
        if known_version != self.catalogue.topic_version:
            shown = self.catalogue.consumer_layouts(group.topics)
            response.topicMetaInfoList.extend(encode_consumer_layouts(shown))

    def _add_orders(self, orders: Any, group: ConsumerGroup, known: Any) -> None:
        orders.SetInParent()
        if self._authenticator.enabled:
            orders.requireAuth = True
        if group.jump_to_end_id >= 0:
            orders.csmFrmMaxOffsetCtrlId = group.jump_to_end_id
        rules = self.catalogue.flow_rules.get(group.name)
        if rules is not None and rules.enabled:
            orders.groupFlowCheckId, orders.qryPriorityId = rules.version, _QUERY_PRIORITY
            if known.groupFlowCheckId != rules.version:
                orders.groupFlowControlInfo = rules.text

    def _grant(self, grant: Any) -> None:
        grant.visitAuthorizedToken = self.catalogue.visit_tokens[-1]

    def _client_config(self, request: Any, response: Any) -> None:
        # Clients get the largest message size unless they have this version of it already.
        response.appdConfig.configId = self.catalogue.broker_version
        if request.appdConfig.configId != self.catalogue.broker_version:
            response.appdConfig.maxMsgSize = DEFAULT_MAX_MESSAGE_BYTES


def _known_brokers(request: Any) -> int | None:
    return request.subRepInfo.brokerConfigId if request.HasField("subRepInfo") else None
