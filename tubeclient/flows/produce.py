"""A producer's calls to the master: register, and ask by heartbeats where its topics can be written."""

from __future__ import annotations

from collections.abc import Sequence

from tubeclient.errors import RegistrationLost
from tubeclient.flows.effects import Flow, checked
from tubeclient.flows.master import UNDEFINED, MasterList, call_master
from tubeclient.keys import BrokerInfo, TopicLayout
from tubeclient.wire.methods import Method
from tubeclient.wire.proto import master_pb2
from tubeclient.wire.strings import parse_broker, parse_producer_layouts

__all__ = ["DEFAULT_MAX_MESSAGE_BYTES", "ProducerSession"]

_NOT_READY = 201

DEFAULT_MAX_MESSAGE_BYTES = 1 << 20
"""A cluster's limit for a payload if it names no other (maxMsgSizeInMB = 1)."""


class ProducerSession:
    """What a producer knows of the cluster. Its methods are flows that refresh it."""

    def __init__(self, masters: MasterList, client_id: str, host_name: str) -> None:
        self.brokers: dict[int, BrokerInfo] = {}
        self.layouts: list[TopicLayout] = []
        self._masters = masters
        self._client_id = client_id
        self._host_name = host_name
        self._broker_check_sum = -1
        self._cluster_max_bytes = DEFAULT_MAX_MESSAGE_BYTES
        self._topic_max_bytes: dict[str, int] = {}

    def max_message_bytes(self, topic: str) -> int:
        """The topic's largest payload, including attributes."""
        return self._topic_max_bytes.get(topic, self._cluster_max_bytes)

    def register(self) -> Flow[None]:
        """Register the producer; the answer has the brokers."""
        request = master_pb2.RegisterRequestP2M(
            clientId=self._client_id,
            brokerCheckSum=-1,
            hostName=self._host_name,
            appdConfig=master_pb2.ApprovedClientConfig(configId=UNDEFINED),
        )
        response = yield from call_master(self._masters, Method.PRODUCER_REGISTER, request)
        self._take_brokers(checked(response, "registering a producer"))

    def refresh(self, topics: Sequence[str]) -> Flow[None]:
        """Send a heartbeat, and learn where `topics` can be written now.

        Registers again if the master has forgotten this producer.
        """
        request = master_pb2.HeartRequestP2M(
            clientId=self._client_id,
            brokerCheckSum=self._broker_check_sum,
            hostName=self._host_name,
            topicList=sorted(topics),
            appdConfig=master_pb2.ApprovedClientConfig(configId=UNDEFINED),
        )
        response = yield from call_master(self._masters, Method.PRODUCER_HEARTBEAT, request)
        if response.errCode == _NOT_READY:
            return  # the master has just started; its earlier answer is still valid
        try:
            checked(response, f"publishing to {', '.join(topics)}")
        except RegistrationLost:
            yield from self.register()
            response = yield from call_master(self._masters, Method.PRODUCER_HEARTBEAT, request)
            checked(response, f"publishing to {', '.join(topics)}")
        self._take_brokers(response)
        self.layouts, self._topic_max_bytes = parse_producer_layouts(response.topicInfos)

    def close(self) -> Flow[None]:
        """Unregister from the master."""
        yield from call_master(
            self._masters, Method.PRODUCER_CLOSE, master_pb2.CloseRequestP2M(clientId=self._client_id)
        )

    def _take_brokers(self, response: master_pb2.RegisterResponseM2P | master_pb2.HeartResponseM2P) -> None:
        if response.brokerInfos:
            brokers = (parse_broker(text, tls=self._masters.tls) for text in response.brokerInfos)
            self.brokers = {broker.broker_id: broker for broker in brokers}
        self._broker_check_sum = response.brokerCheckSum
        if response.HasField("appdConfig") and response.appdConfig.maxMsgSize > 0:
            self._cluster_max_bytes = response.appdConfig.maxMsgSize
