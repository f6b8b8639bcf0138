"""State machines with a fixed clock, and short forms of their calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from embedded_tubemq.broker.broker import Broker, BrokerSettings
from embedded_tubemq.broker.offsets import GroupOffsets
from embedded_tubemq.common.catalogue import BrokerState, Catalogue, TopicConfig
from embedded_tubemq.common.peer import Peer
from embedded_tubemq.master.master import Master, MasterSettings
from embedded_tubemq.storage.stores import StoreDirectory
from tubeclient.keys import BrokerInfo
from tubeclient.wire.methods import Method
from tubeclient.wire.payload import encode_attributes, encode_payload

__all__ = ["START_MS", "FakeBroker", "FakeMaster"]

START_MS = 1_700_000_000_000


def complete(answer: Any) -> Any:
    """The answer, which must have every required field: clients cannot read it otherwise, whatever it says."""
    assert answer.IsInitialized(), answer.FindInitializationErrors()
    return answer


class FakeMaster:
    """A master over one broker; `now_ms` is the time of the next call."""

    def __init__(self, *topics: TopicConfig, settings: MasterSettings | None = None) -> None:
        self.now_ms = START_MS
        self.peer = Peer("127.0.0.1:5")
        self.catalogue = Catalogue(START_MS, topics or (TopicConfig("flights", 2, 4), TopicConfig("clicks")))
        self.catalogue.put_broker(BrokerState(BrokerInfo(1, "127.0.0.1", 8123), 8081, tls_port=8124))
        self.machine = Master(self.catalogue, settings)

    def call(self, method: Method, **fields: Any) -> Any:
        return complete(self.machine.handle(method, method.spec.request(**fields), self.now_ms, self.peer))

    def join(self, client_id: str = "c0", group: str = "g", count: int = 2, node: int = 0, **fields: Any) -> Any:
        """Register a client-balance consumer of topic flights."""
        fields = {"topicList": ["flights"], "hostName": "host"} | fields
        return self.call(
            Method.CONSUMER_REGISTER_V2, clientId=client_id, groupName=group, sourceCount=count, nodeId=node, **fields
        )

    def heartbeat(self, client_id: str = "c0", group: str = "g", **fields: Any) -> Any:
        return self.call(Method.CONSUMER_HEARTBEAT_V2, clientId=client_id, groupName=group, **fields)


class FakeBroker:
    """A broker on real files in `folder`; `now_ms` is the time of the next call."""

    def __init__(self, folder: Path, *topics: TopicConfig, settings: BrokerSettings | None = None) -> None:
        self.now_ms = START_MS
        self.folder = folder
        self.catalogue = Catalogue(START_MS, topics or (TopicConfig("flights", 1, 2),))
        self.offsets = GroupOffsets()
        self.stores = StoreDirectory(folder, self.catalogue, lambda: self.now_ms)
        self.machine = Broker(1, self.catalogue, self.stores, self.offsets, settings)
        self.faults = self.machine.faults

    def call(self, method: Method, **fields: Any) -> Any:
        return complete(self.machine.handle(method, method.spec.request(**fields), self.now_ms))

    def send(self, body: bytes, partition: int = 0, topic: str = "flights", tag: str = "", **fields: Any) -> Any:
        payload, flag = encode_payload(body, encode_attributes({}, tag))
        fields = {
            "clientId": "p",
            "checkSum": -1,
            "sentAddr": 0,
            "data": payload,
            "flag": flag,
            "msgType": tag,
        } | fields
        return self.call(Method.SEND_MESSAGE, topicName=topic, partitionId=partition, **fields)

    def register(self, partition: int = 0, client: str = "c", group: str = "g", status: int = 0, **fields: Any) -> Any:
        fields = {"opType": 31, "topicName": "flights"} | fields
        return self.call(
            Method.PARTITION_REGISTER,
            clientId=client,
            groupName=group,
            partitionId=partition,
            readStatus=status,
            **fields,
        )

    def unregister(self, partition: int = 0, client: str = "c", group: str = "g", *, consumed: bool = True) -> Any:
        return self.register(partition, client, group, 0 if consumed else 1, opType=32)

    def fetch(self, partition: int = 0, client: str = "c", group: str = "g", **fields: Any) -> Any:
        fields = {"topicName": "flights"} | fields
        return self.call(Method.GET_MESSAGES, clientId=client, groupName=group, partitionId=partition, **fields)

    def commit(self, partition: int = 0, client: str = "c", group: str = "g", **fields: Any) -> Any:
        fields = {"topicName": "flights"} | fields
        return self.call(Method.COMMIT_OFFSET, clientId=client, groupName=group, partitionId=partition, **fields)

    def heartbeat(self, *partitions: int, client: str = "c", group: str = "g", **fields: Any) -> Any:
        held = [f"1:127.0.0.1:8123#flights:{partition}" for partition in partitions]
        return self.call(
            Method.PARTITION_HEARTBEAT, clientId=client, groupName=group, readStatus=0, partitionInfo=held, **fields
        )
