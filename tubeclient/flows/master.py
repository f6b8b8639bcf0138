"""Calls to the master: the list of masters is walked until one answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.message import Message

from tubeclient.errors import ConnectError, ProtocolError, RegistrationLost, RemoteError, TransportError, TubeError
from tubeclient.flows.effects import Flow, Receive, Send, checked
from tubeclient.keys import BrokerInfo, PartitionKey, TopicLayout
from tubeclient.metadata import ClusterView
from tubeclient.wire.methods import Method
from tubeclient.wire.proto import master_pb2
from tubeclient.wire.strings import encode_filters, encode_report, parse_broker, parse_consumer_layouts

__all__ = [
    "GroupNode",
    "MasterList",
    "MetadataCache",
    "call_master",
    "close_nodes",
    "heartbeat_nodes",
    "query_view",
    "register_node",
]

UNDEFINED = -2
"""TubeMQ's "no value" (TBaseConstants.META_VALUE_UNDEFINED)."""


class MasterList:
    """The addresses of the masters, beginning with the one that answered last."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = list(addresses)

    def in_order(self) -> tuple[str, ...]:
        """The addresses, the preferred one first."""
        return tuple(self._addresses)

    def prefer(self, address: str) -> None:
        """Start with `address` from now on."""
        self._addresses.remove(address)
        self._addresses.insert(0, address)


@dataclass(frozen=True, slots=True)
class GroupNode:
    """One client of a consumer group as the master knows it. `source_count` -2 leaves nodeId unchecked."""

    client_id: str
    group: str
    topics: tuple[str, ...]
    host_name: str
    source_count: int = UNDEFINED
    node_id: int = UNDEFINED
    filters: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def __str__(self) -> str:
        node = f" node {self.node_id} of {self.source_count}" if self.source_count > 0 else ""
        return f"consumerGroup {self.group}{node}, topics {', '.join(self.topics)}"


class MetadataCache:
    """The lists a master sent last, with their version ids: it sends a list again only to those who know another
    version.
    """

    def __init__(self) -> None:
        self.broker_config_id = UNDEFINED
        self.topic_meta_id = UNDEFINED
        self._brokers: list[BrokerInfo] = []
        self._layouts: list[TopicLayout] = []

    def take(self, response: Any) -> None:
        """Keep what a response to a register, heartbeat or metadata call carries."""
        if response.HasField("brokerConfigId") and response.brokerConfigId != self.broker_config_id:
            self._brokers = [parse_broker(text) for text in response.brokerConfigList]
            self.broker_config_id = response.brokerConfigId
        has_topics = "topicMetaInfoId" in response.DESCRIPTOR.fields_by_name
        if has_topics and response.HasField("topicMetaInfoId") and response.topicMetaInfoId != self.topic_meta_id:
            self._layouts = parse_consumer_layouts(response.topicMetaInfoList)
            self.topic_meta_id = response.topicMetaInfoId

    def view(self) -> ClusterView:
        """The cluster as these lists show it."""
        return ClusterView.of(self._brokers, self._layouts)


def call_master(masters: MasterList, method: Method, request: Message) -> Flow[Any]:
    """Ask the masters in turn and return the first answer; ConnectError naming each address and its fault where
    none answers. All of them together have the time of one call.
    """
    faults: list[str] = []
    addresses = masters.in_order()
    for address in addresses:
        try:
            ticket = yield Send(address, method, request, 1 / len(addresses))
            response = yield Receive(ticket)
        except (TransportError, ProtocolError, RemoteError) as error:
            faults.append(f"{address} ({error})")
            continue
        masters.prefer(address)
        return response
    raise ConnectError(
        f"no master answered; tried {'; '.join(faults)}. Check masterServers and that this machine reaches them",
        address=addresses[0],
    )


def register_node(masters: MasterList, node: GroupNode, cache: MetadataCache) -> Flow[None]:
    """Make `node` a live member of its group; StatusError of the class that says why the master refuses."""
    request = master_pb2.RegisterRequestC2MV2(
        clientId=node.client_id,
        groupName=node.group,
        hostName=node.host_name,
        sourceCount=node.source_count,
        nodeId=node.node_id,
        topicList=node.topics,
        topicCondition=encode_filters(node.filters),
        subRepInfo=_report(cache, None),
    )
    response = yield from call_master(masters, Method.CONSUMER_REGISTER_V2, request)
    cache.take(checked(response, str(node)))


def query_view(masters: MasterList, node: GroupNode, cache: MetadataCache) -> Flow[ClusterView]:
    """Ask for brokers and layouts as a registered `node`; RegistrationLost where the master does not know it (any
    more).
    """
    request = master_pb2.GetPartMetaRequestC2M(
        clientId=node.client_id,
        groupName=node.group,
        brokerConfigId=cache.broker_config_id,
        topicMetaInfoId=cache.topic_meta_id,
    )
    response = yield from call_master(masters, Method.PARTITION_METADATA, request)
    cache.take(checked(response, str(node)))
    return cache.view()


def heartbeat_nodes(
    masters: MasterList,
    nodes: Sequence[GroupNode],
    cache: MetadataCache,
    held: Mapping[int, Sequence[PartitionKey]],
) -> Flow[list[GroupNode]]:
    """Keep the nodes alive and report which partitions each holds (`held`, by node id); return those the master has
    forgotten.
    """
    forgotten = []
    for node in nodes:
        request = master_pb2.HeartRequestC2MV2(
            clientId=node.client_id, groupName=node.group, subRepInfo=_report(cache, held.get(node.node_id, ()))
        )
        response = yield from call_master(masters, Method.CONSUMER_HEARTBEAT_V2, request)
        try:
            cache.take(checked(response, str(node)))
        except RegistrationLost:
            forgotten.append(node)
    return forgotten


def close_nodes(masters: MasterList, nodes: Sequence[GroupNode]) -> Flow[None]:
    """Take the nodes out of their group.

    The master forgets them by itself within its lease, so a failure is not an error.
    """
    for node in nodes:
        request = master_pb2.CloseRequestC2M(clientId=node.client_id, groupName=node.group)
        try:
            yield from call_master(masters, Method.CONSUMER_CLOSE, request)
        except TubeError:
            return


def _report(cache: MetadataCache, held: Sequence[PartitionKey] | None) -> master_pb2.ClientSubRepInfo:
    return master_pb2.ClientSubRepInfo(
        brokerConfigId=cache.broker_config_id,
        topicMetaInfoId=cache.topic_meta_id,
        reportSubInfo=held is not None,
        partSubInfo=encode_report(held or ()),
    )
