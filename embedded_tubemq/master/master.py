"""The master as a state machine: calls in, answers out; the caller supplies the time; no I/O.

It keeps producers and consumers, refuses clients that do not fit their group, and tells clients the layout. Groups
assign their partitions themselves (client-balance: RPC 20 to 22). Groups that leave it to the master are not served.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message

from embedded_tubemq.common.catalogue import MAX_MESSAGE_BYTES, NOBODY, Catalogue, Peer, ServerSettings
from embedded_tubemq.common.refusal import Authenticator, Code, Faults, Refusal, StandbyRefusal, checked_name, refused
from embedded_tubemq.master.groups import Consumer, ConsumerGroup, client_and_group, joining_of, topic_set
from tubeclient.errors import ProtocolError
from tubeclient.wire.methods import Method
from tubeclient.wire.proto import master_pb2
from tubeclient.wire.signature import Signed
from tubeclient.wire.strings import encode_consumer_layouts, encode_producer_layouts, parse_report

_WELL: dict[str, Any] = {"errCode": Code.SUCCESS, "errMsg": "OK!"}


class Master:
    """One master."""

    def __init__(
        self, catalogue: Catalogue, settings: ServerSettings | None = None, faults: Faults | None = None
    ) -> None:
        self.catalogue = catalogue
        self.settings = settings or ServerSettings()
        self.faults = faults or Faults()
        self.groups: dict[str, ConsumerGroup] = {}
        self.producers: dict[str, int] = {}
        """When their leases end, in ms, by client id."""
        self._authenticator = Authenticator(self.settings.users)
        self._calls: dict[Method, Callable[[Any, int, Peer], Any]] = {
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
        try:
            self.faults.refuse_if_forced(method)
            self._authenticate(request, now_ms)
            answer: Message = self._calls[method](request, now_ms, peer)
            return answer
        except Refusal as refusal:
            return refused(method, refusal)

    serve = handle

    def tick(self, now_ms: int) -> None:
        for group in list(self.groups.values()):
            for consumer in [member for member in group.consumers.values() if now_ms >= member.deadline_ms]:
                del group.consumers[consumer.client_id]
            self._drop_if_empty(group)
        self.producers = {client_id: ends for client_id, ends in self.producers.items() if now_ms < ends}

    # Producers

    def _register_producer(self, request: Any, now_ms: int, peer: Peer) -> Message:
        client_id = checked_name(request.clientId, "clientId")
        checked_name(request.hostName, "hostName")
        self._check_active()
        self.producers[client_id] = now_ms + self.settings.lease_ms
        response = master_pb2.RegisterResponseM2P(**_WELL, success=True, brokerCheckSum=self.catalogue.broker_version)
        response.brokerInfos.extend(self._broker_list(peer))
        self._grant(response.authorizedInfo)
        self._client_config(request, response)
        return response

    def _heartbeat_producer(self, request: Any, now_ms: int, peer: Peer) -> Message:
        client_id = checked_name(request.clientId, "clientId")
        checked_name(request.hostName, "hostName")
        topics = topic_set(request.topicList)
        self._check_active()
        if client_id not in self.producers:
            raise Refusal(Code.HB_NO_NODE, f"producer {client_id} is not registered")
        self.producers[client_id] = now_ms + self.settings.lease_ms
        response = master_pb2.HeartResponseM2P(**_WELL, success=True, brokerCheckSum=self.catalogue.broker_version)
        if request.brokerCheckSum != self.catalogue.broker_version:
            response.brokerInfos.extend(self._broker_list(peer))
        for name in sorted(topics):
            if self.catalogue.topic(name) is not None:
                layouts = self.catalogue.producer_layouts(name)
                response.topicInfos.extend(encode_producer_layouts(layouts, MAX_MESSAGE_BYTES))
        self._grant(response.authorizedInfo)
        if self._authenticator.enabled:  # as in Apache's answers, absent otherwise
            response.requireAuth = True
        self._client_config(request, response)
        return response

    def _close_producer(self, request: Any, now_ms: int, peer: Peer) -> Message:
        client_id = checked_name(request.clientId, "clientId")
        self._check_active()
        self.producers.pop(client_id, None)
        return master_pb2.CloseResponseM2P(**_WELL, success=True)

    # Consumers

    def _register_consumer(self, request: Any, now_ms: int, peer: Peer) -> Any:
        client_id, group_name = client_and_group(request)
        checked_name(request.hostName, "hostName")
        self._check_active()
        joining = joining_of(request, client_id, self.catalogue)
        group = self.groups.get(group_name)
        if group is None:
            group = self.groups[group_name] = ConsumerGroup(group_name, joining)
        else:
            group.check(joining)
        consumer = group.join(joining, peer, now_ms + self.settings.lease_ms)
        return self._reported(consumer, request, master_pb2.RegisterResponseM2CV2(**_WELL), peer)

    def _heartbeat_consumer(self, request: Any, now_ms: int, peer: Peer) -> Any:
        _, consumer = self._known_consumer(request, now_ms)
        return self._reported(consumer, request, master_pb2.HeartResponseM2CV2(**_WELL), peer)

    def _partition_metadata(self, request: Any, now_ms: int, peer: Peer) -> Message:
        group, _ = self._known_consumer(request, now_ms)
        response = master_pb2.GetPartMetaResponseM2C(**_WELL)
        response.topicMetaInfoId = self.catalogue.topic_version
        if request.topicMetaInfoId != self.catalogue.topic_version:
            shown = self.catalogue.consumer_layouts(group.first.topics)
            response.topicMetaInfoList.extend(encode_consumer_layouts(shown))
        self._add_brokers(response, request.brokerConfigId, peer)
        return response

    def _close_consumer(self, request: Any, now_ms: int, peer: Peer) -> Message:
        client_id, group_name = client_and_group(request)
        self._check_active()
        group = self.groups.get(group_name)
        if group is not None:
            group.consumers.pop(client_id, None)
            self._drop_if_empty(group)
        return master_pb2.CloseResponseM2C(**_WELL, success=True)

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

    def _reported(self, consumer: Consumer, request: Any, response: Any, peer: Peer) -> Any:
        """Take a consumer's report, and answer it."""
        known_version = None
        if request.HasField("subRepInfo"):
            report = request.subRepInfo
            known_version = report.brokerConfigId
            if report.reportSubInfo:
                try:
                    consumer.partitions = tuple(sorted(parse_report(report.partSubInfo)))
                except ProtocolError as error:
                    raise Refusal(Code.BAD_REQUEST, str(error)) from error
        self._add_brokers(response, known_version, peer)
        response.opsTaskInfo.SetInParent()
        if self._authenticator.enabled:
            response.opsTaskInfo.requireAuth = True
        self._grant(response.authorizedInfo)
        return response

    def _drop_if_empty(self, group: ConsumerGroup) -> None:
        if not group.consumers:
            self.groups.pop(group.name, None)

    def _broker_list(self, peer: Peer) -> list[str]:
        brokers = self.catalogue.brokers()
        return [str(broker.info._replace(port=broker.tls_port) if peer.tls else broker.info) for broker in brokers]

    def _add_brokers(self, response: Any, known_version: int | None, peer: Peer) -> None:
        response.brokerConfigId = self.catalogue.broker_version
        if known_version != self.catalogue.broker_version:
            response.brokerConfigList.extend(self._broker_list(peer))

    def _grant(self, grant: Any) -> None:
        grant.visitAuthorizedToken = self.catalogue.visit_tokens[-1]

    def _client_config(self, request: Any, response: Any) -> None:
        # Clients get the largest message size unless they have this version of it already.
        response.appdConfig.configId = self.catalogue.broker_version
        if request.appdConfig.configId != self.catalogue.broker_version:
            response.appdConfig.maxMsgSize = MAX_MESSAGE_BYTES
