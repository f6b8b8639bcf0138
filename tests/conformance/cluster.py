"""One small interface to a running TubeMQ with two brokers, embedded or Apache's."""

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace

from embedded_tubemq import DEFAULT_TOKEN, EmbeddedTubeMQ, TopicConfig
from tests.apache.server import ApacheTubeMQ, TopicSpec
from tests.apache.settings import MODIFY_TOKEN
from tests.embedded_tubemq.raw_client import RawClient
from tubeclient import BrokerInfo, ClientSettings, PartitionKey
from tubeclient.wire.methods import Method
from tubeclient.wire.payload import encode_attributes, encode_payload

__all__ = ["ApacheCluster", "Cluster", "EmbeddedCluster", "to_config"]

_STANDS_SECONDS = 10.0
_LONGEST_STAND_SECONDS = 300.0


class Cluster(ABC):
    """What the tests may know and do whatever the servers are. Brokers have the ids 1 and 2."""

    name: str
    modify_token: str
    """What the master wants with changes over HTTP."""
    master_address: str
    master_web_port: int
    brokers: Mapping[int, BrokerInfo]

    @property
    def masters(self) -> list[tuple[str, str]]:
        """Each master's address, and that of its web port."""
        return [(self.master_address, f"127.0.0.1:{self.master_web_port}")]

    @property
    def master_servers(self) -> str:
        """Their addresses, as clients are told them."""
        return ",".join(address for address, _ in self.masters)

    @property
    def settings(self) -> ClientSettings:
        return ClientSettings(
            self.master_servers, master_web_port=self.master_web_port, rpc_timeout_ms=4_000, retry_limit_ms=30_000
        )

    @abstractmethod
    def stop_broker(self, broker_id: int) -> None:
        """Cleanly: what it holds is written down, and the master is told."""

    @abstractmethod
    def start_broker(self, broker_id: int) -> None:
        """On its former port, with its former data."""

    @abstractmethod
    def restart_master(self) -> None:
        """It forgets its clients."""

    @abstractmethod
    def standing_still(self, broker_id: int) -> AbstractContextManager[None]:
        """A broker, or for 0 the master, does nothing for the length of the block, and then goes on where it was. Its
        connections stay. The embedded servers are one process, so that all of them stand still."""

    @abstractmethod
    def restrict(self, topic: TopicSpec, groups: Mapping[str, Collection[str]]) -> None:
        """Only these groups may read the topic from now on, each with the tags given only; all messages for none."""

    @abstractmethod
    def grow_topic(self, name: str, *, partitions: int) -> None:
        """Give each store of a topic so many partitions; returns when the master shows them to clients."""

    @contextmanager
    def without_broker(self, broker_id: int) -> Iterator[None]:
        """The broker is stopped for the length of the block."""
        self.stop_broker(broker_id)
        try:
            yield
        finally:
            self.start_broker(broker_id)

    def raw(self, broker_id: int = 0) -> RawClient:
        """A plain connection to a broker, or with 0 to the master; to be closed by the caller."""
        return RawClient(self.brokers[broker_id].address if broker_id else self.master_address)

    def visit_token(self) -> int:
        """What readers and raw calls show to brokers, as the master gives it to every client."""
        with self.raw() as master:
            answer = master.call(Method.PRODUCER_REGISTER, clientId="visitor", brokerCheckSum=-1, hostName="127.0.0.1")
        token: int = answer.authorizedInfo.visitAuthorizedToken
        return token

    def put(self, key: PartitionKey, bodies: Iterable[bytes], *, tag: str = "") -> list[int]:
        """Write messages to this very partition, in order; returns their index offsets."""
        offsets = []
        visit = {"visitAuthorizedToken": self.visit_token()}
        with self.raw(key.broker_id) as broker:
            for body in bodies:
                data, flag = encode_payload(body, encode_attributes({}, tag, "202611211030" if tag else ""))
                answer = broker.call(
                    Method.SEND_MESSAGE,
                    clientId="putter",
                    topicName=key.topic,
                    partitionId=key.partition_id,
                    data=data,
                    flag=flag,
                    checkSum=-1,
                    sentAddr=0,
                    msgType=tag or None,
                    msgTime="202611211030" if tag else None,
                    authInfo=visit,
                )
                assert answer.success, answer.errMsg
                offsets.append(answer.appendOffset)
        return offsets


@dataclass
class ApacheCluster(Cluster):
    """Apache's servers."""

    servers: ApacheTubeMQ

    def __post_init__(self) -> None:
        self.name, self.modify_token = "apache", MODIFY_TOKEN
        self.master_address = self.servers.master_address
        self.master_web_port = self.servers.master_web_port
        self.brokers = _infos(zip(self.servers.broker_ids, self.servers.broker_addresses, strict=True))

    def stop_broker(self, broker_id: int) -> None:
        self.servers.stop_broker(broker_id - 1)

    def start_broker(self, broker_id: int) -> None:
        self.servers.start_broker(broker_id - 1)

    def restart_master(self) -> None:
        self.servers.restart_master()

    @property
    def masters(self) -> list[tuple[str, str]]:
        return self.servers.masters

    def standing_still(self, broker_id: int) -> AbstractContextManager[None]:
        return self.servers.standing_still(broker_id - 1 if broker_id else None)

    def restrict(self, topic: TopicSpec, groups: Mapping[str, Collection[str]]) -> None:
        modify = self.servers.admin.modify
        modify("admin_set_topic_authorize_control", topicName=topic.name, isEnable=True)
        for group, tags in groups.items():
            where = {"groupName": group, "topicName": topic.name}
            if tags:
                modify(
                    "admin_add_group_csmctrl_info",
                    **where,
                    consumeEnable=True,
                    filterEnable=True,
                    filterConds=sorted(tags),
                )
            else:
                modify("admin_add_authorized_consumergroup_info", **where)

    def grow_topic(self, name: str, *, partitions: int) -> None:
        self.servers.grow_topic(name, partitions=partitions)


@dataclass
class EmbeddedCluster(Cluster):
    """The embedded servers."""

    servers: EmbeddedTubeMQ

    def __post_init__(self) -> None:
        self.name, self.modify_token = "embedded", DEFAULT_TOKEN
        self.master_address = self.servers.master_address
        self.master_web_port = self.servers.master_web_port
        self.brokers = _infos(self.servers.broker_addresses.items())

    def stop_broker(self, broker_id: int) -> None:
        self.servers.stop_broker(broker_id)

    def start_broker(self, broker_id: int) -> None:
        self.servers.start_broker(broker_id)

    def restart_master(self) -> None:
        self.servers.restart_master()

    @contextmanager
    def standing_still(self, broker_id: int) -> Iterator[None]:
        over, stands = threading.Event(), threading.Event()

        def stand(_: object) -> None:
            stands.set()
            over.wait(_LONGEST_STAND_SECONDS)

        def hold() -> None:
            with contextlib.suppress(TimeoutError):  # a call may not take so long; what it began goes on
                self.servers.inspect(stand)

        holding = threading.Thread(target=hold)
        holding.start()
        try:
            assert stands.wait(_STANDS_SECONDS)
            yield
        finally:
            over.set()
            holding.join()

    def restrict(self, topic: TopicSpec, groups: Mapping[str, Collection[str]]) -> None:
        [config] = to_config([topic])
        allowed = {group: frozenset(tags) for group, tags in groups.items() if tags}
        self.servers.change_topic(replace(config, authorized_groups=frozenset(groups), allowed_tags=allowed))

    def grow_topic(self, name: str, *, partitions: int) -> None:
        self.servers.grow_topic(name, partitions=partitions)


def to_config(topics: Sequence[TopicSpec]) -> list[TopicConfig]:
    """The same topics for the embedded servers."""
    return [TopicConfig(topic.name, topic.num_stores, topic.num_partitions) for topic in topics]


def _infos(addresses: Iterable[tuple[int, str]]) -> dict[int, BrokerInfo]:
    infos = {}
    for broker_id, address in addresses:
        host, _, port = address.rpartition(":")
        infos[broker_id] = BrokerInfo(broker_id, host, int(port))
    return infos
