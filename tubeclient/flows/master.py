"""Calls to the master. The masters are tried in turn until one answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from google.protobuf.message import Message

from tubeclient.errors import (
    ConnectError,
    ProtocolError,
    RegistrationLost,
    RemoteError,
    TransportError,
    TubeError,
)
from tubeclient.flows.effects import Flow, Receive, Send, checked
from tubeclient.flows.reader import Authority
from tubeclient.flows.throttling import NO_RULES, FlowRules
from tubeclient.keys import BrokerInfo, PartitionKey, TopicLayout
from tubeclient.metadata import ClusterView
from tubeclient.wire.methods import Method
from tubeclient.wire.proto import master_pb2
from tubeclient.wire.strings import (
    encode_filters,
    encode_report,
    parse_broker,
    parse_consumer_layouts,
)

UNDEFINED = -2
"""TubeMQ's "no value" (TBaseConstants.META_VALUE_UNDEFINED)."""


class MasterList:
    """The addresses of the masters, beginning with the one that answered last.

    Every call carries `authority`. With `tls`, the masters and the brokers that they name are reached over TLS.
    """

    def __init__(self, addresses: Sequence[str], authority: Authority | None = None, *, tls: bool = False) -> None:
        self.authority = authority or Authority()
        self.tls = tls
        self.addresses = tuple(addresses)


@dataclass(frozen=True, slots=True)
class GroupNode:
    """One client of a consumer group as the master knows it. With a `source_count` of -2 nodeId is not checked."""

    client_id: str
    group: str
    topics: tuple[str, ...]
    host_name: str
    source_count: int = UNDEFINED
    node_id: int = UNDEFINED
    filters: Mapping[str, frozenset[str]] = field(default_factory=dict)
    tags: frozenset[str] = frozenset()
    """The filter of each topic that `filters` does not name."""

    def __str__(self) -> str:
        node = f" node {self.node_id} of {self.source_count}" if self.source_count > 0 else ""
        return f"consumerGroup {self.group}{node}, topics {', '.join(self.topics)}"


@dataclass(frozen=True, slots=True)
class GroupOrders:
    """The master's orders to a group's clients."""

    group_rules: FlowRules = NO_RULES
    default_rules: FlowRules = NO_RULES
    """The cluster's rules, for what the group's own rules leave open."""
    jump_id: int = UNDEFINED
    """If it changes, the clients go on with the latest messages (csmFrmMaxOffsetCtrlId)."""


class MetadataCache:
    """The lists and orders that a master sent last, with their version ids. It sends them again only to clients that
    have another version.
    """

    def __init__(self) -> None:
        self.orders = GroupOrders()
        self._group_rules_id = UNDEFINED
        self._default_rules_id = UNDEFINED
        self.broker_config_id = UNDEFINED
        self.topic_meta_id = UNDEFINED
        self._brokers: list[BrokerInfo] = []
        self._layouts: list[TopicLayout] = []
        self._view: ClusterView | None = None

    def take(self, response: Any, *, tls: bool = False) -> None:
        """Keep the lists and orders in an answer to a register, heartbeat or metadata call; `tls`: it came over TLS."""
        if response.HasField("brokerConfigId") and response.brokerConfigId != self.broker_config_id:
            self._brokers = [parse_broker(text, tls=tls) for text in response.brokerConfigList]
            self.broker_config_id = response.brokerConfigId
            self._view = None
        has_topics = "topicMetaInfoId" in response.DESCRIPTOR.fields_by_name
        if has_topics and response.HasField("topicMetaInfoId") and response.topicMetaInfoId != self.topic_meta_id:
            self._layouts = parse_consumer_layouts(response.topicMetaInfoList)
            self.topic_meta_id = response.topicMetaInfoId
            self._view = None
        if "opsTaskInfo" in response.DESCRIPTOR.fields_by_name and response.HasField("opsTaskInfo"):
            self._take_orders(response.opsTaskInfo)

    @property
    def versions(self) -> tuple[int, int]:
        """The version ids of the lists of brokers and of layouts."""
        return self.broker_config_id, self.topic_meta_id

    def forget_topics(self) -> None:
        """Drop the layouts, since other topics are read from now on."""
        self.topic_meta_id = UNDEFINED
        self._layouts = []
        self._view = None

    def known_orders(self) -> master_pb2.OpsTaskInfo | None:
        """The version ids of the orders, for a request. None if there are none yet."""
        if max(self._group_rules_id, self._default_rules_id, self.orders.jump_id) < 0:
            return None
        return master_pb2.OpsTaskInfo(
            groupFlowCheckId=_known(self._group_rules_id),
            defFlowCheckId=_known(self._default_rules_id),
            csmFrmMaxOffsetCtrlId=_known(self.orders.jump_id),
        )

    def _take_orders(self, info: master_pb2.OpsTaskInfo) -> None:
        changes: dict[str, Any] = {}
        if info.HasField("groupFlowCheckId") and info.groupFlowCheckId != self._group_rules_id:
            self._group_rules_id = info.groupFlowCheckId
            changes["group_rules"] = _rules(info.groupFlowControlInfo, self.orders.group_rules)
        if info.HasField("defFlowCheckId") and info.defFlowCheckId != self._default_rules_id:
            self._default_rules_id = info.defFlowCheckId
            changes["default_rules"] = _rules(info.defFlowControlInfo, self.orders.default_rules)
        if info.HasField("csmFrmMaxOffsetCtrlId") and info.csmFrmMaxOffsetCtrlId >= 0:
            changes["jump_id"] = info.csmFrmMaxOffsetCtrlId
        self.orders = replace(self.orders, **changes)

    def view(self, visit_token: int | None = None) -> ClusterView:
        """The cluster by these lists, with this visit token.

        It is the same object until something changes, so that what it caches, as the sorted list of its partitions, is
        kept.
        """
        if self._view is None:
            self._view = ClusterView.of(self._brokers, self._layouts)
        if self._view.visit_token != visit_token:
            self._view = replace(self._view, visit_token=visit_token)
        return self._view


def call_master(masters: MasterList, method: Method, request: Message) -> Flow[Any]:
    """Ask the masters in turn and return the first answer. If none answers, a ConnectError names each address and its
    fault. All of them together have the time of one call.
    """
    faults: list[str] = []
    addresses = masters.addresses
    for address in addresses:
        masters.authority.to_master(request)
        try:
            ticket = yield Send(address, method, request, 1 / len(addresses))
            response = yield Receive(ticket)
        except (TransportError, ProtocolError, RemoteError) as error:
            faults.append(f"{address} ({error})")
            continue
        masters.addresses = (address, *(other for other in addresses if other != address))
        masters.authority.take(response)
        return response
    raise ConnectError(
        f"no master answered; tried {'; '.join(faults)}. Check masterServers, and that this machine can reach them",
        address=addresses[0],
        condition="MASTER_UNREACHABLE",
    )


def register_node(masters: MasterList, node: GroupNode, cache: MetadataCache) -> Flow[None]:
    """Make `node` a live member of its group. The class of the StatusError says why the master refuses."""
    request = master_pb2.RegisterRequestC2MV2(
        clientId=node.client_id,
        groupName=node.group,
        hostName=node.host_name,
        sourceCount=node.source_count,
        nodeId=node.node_id,
        topicList=node.topics,
        # Masters refuse filters of other topics than those of the request.
        topicCondition=encode_filters({topic: node.filters.get(topic, node.tags) for topic in node.topics}),
        subRepInfo=_report(cache, None),
        opsTaskInfo=cache.known_orders(),
    )
    response = yield from call_master(masters, Method.CONSUMER_REGISTER_V2, request)
    cache.take(checked(response, str(node)), tls=masters.tls)


def query_view(masters: MasterList, node: GroupNode, cache: MetadataCache) -> Flow[ClusterView]:
    """Ask for brokers and layouts as a registered `node`. RegistrationLost if the master does not know it."""
    request = master_pb2.GetPartMetaRequestC2M(
        clientId=node.client_id,
        groupName=node.group,
        brokerConfigId=cache.broker_config_id,
        topicMetaInfoId=cache.topic_meta_id,
    )
    response = yield from call_master(masters, Method.PARTITION_METADATA, request)
    cache.take(checked(response, str(node)), tls=masters.tls)
    return cache.view(masters.authority.visit_token)


def heartbeat_nodes(
    masters: MasterList,
    nodes: Sequence[GroupNode],
    cache: MetadataCache,
    owned: Mapping[int, Sequence[PartitionKey]],
) -> Flow[list[GroupNode]]:
    """Keep the nodes alive and report which partitions each holds (`owned`, by node id). Returns the nodes that the
    master has forgotten.
    """
    forgotten = []
    for node in nodes:
        request = master_pb2.HeartRequestC2MV2(
            clientId=node.client_id,
            groupName=node.group,
            subRepInfo=_report(cache, owned.get(node.node_id, ())),
            opsTaskInfo=cache.known_orders(),
        )
        response = yield from call_master(masters, Method.CONSUMER_HEARTBEAT_V2, request)
        try:
            cache.take(checked(response, str(node)), tls=masters.tls)
        except RegistrationLost:
            forgotten.append(node)
    return forgotten


def close_nodes(masters: MasterList, nodes: Sequence[GroupNode]) -> Flow[None]:
    """Take the nodes out of their group, the first one last: whoever joins takes that one first, and so finds all free.

    The master forgets them when their leases end, so a failure is not an error.
    """
    for node in reversed(nodes):
        request = master_pb2.CloseRequestC2M(clientId=node.client_id, groupName=node.group)
        try:
            yield from call_master(masters, Method.CONSUMER_CLOSE, request)
        except TubeError:
            return


def _report(cache: MetadataCache, owned: Sequence[PartitionKey] | None) -> master_pb2.ClientSubRepInfo:
    return master_pb2.ClientSubRepInfo(
        brokerConfigId=cache.broker_config_id,
        topicMetaInfoId=cache.topic_meta_id,
        reportSubInfo=owned is not None,
        partSubInfo=encode_report(owned or ()),
    )


def _known(version: int) -> int | None:
    return version if version >= 0 else None


def _rules(text: str, before: FlowRules) -> FlowRules:
    """The rules of a text. If it cannot be read, the former rules: a client can do nothing about it."""
    try:
        return FlowRules.parse(text)
    except ProtocolError:
        return before
