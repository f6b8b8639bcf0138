"""One small interface to a running TubeMQ with two brokers, embedded or Apache's."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from embedded_tubemq import DEFAULT_TOKEN, EmbeddedTubeMQ, TopicConfig
from tests.apache.server import ApacheTubeMQ, TopicSpec
from tests.apache.settings import MODIFY_TOKEN
from tests.embedded_tubemq.raw_client import RawClient
from tubeclient import BrokerInfo, ClientSettings, PartitionKey
from tubeclient.net.connection import split_address
from tubeclient.wire.methods import Method
from tubeclient.wire.payload import encode_attributes, encode_payload

__all__ = ["Cluster", "to_config"]

_STANDS_SECONDS = 10.0
_LONGEST_STAND_SECONDS = 300.0


class Cluster:
    """What the tests may know and do whatever the servers are. Brokers have the ids 1 and 2."""

    def __init__(self, servers: ApacheTubeMQ | EmbeddedTubeMQ) -> None:
        self.servers = servers
        self.master_address, self.master_web_port = servers.master_address, servers.master_web_port
        if isinstance(servers, ApacheTubeMQ):
            self.name, self.modify_token, self._first = "apache", MODIFY_TOKEN, 1
            addresses = dict(zip(servers.broker_ids, servers.broker_addresses, strict=True))
        else:
            self.name, self.modify_token, self._first = "embedded", DEFAULT_TOKEN, 0
            addresses = servers.broker_addresses
        self.brokers = {number: BrokerInfo(number, *split_address(address)) for number, address in addresses.items()}

    @property
    def settings(self) -> ClientSettings:
        return ClientSettings(
            (self.master_address,), master_web_port=self.master_web_port, rpc_timeout_ms=4_000, retry_limit_ms=30_000
        )

    def stop_broker(self, broker_id: int) -> None:
        """Cleanly: what it holds is written down, and the master is told."""
        self.servers.stop_broker(broker_id - self._first)

    def start_broker(self, broker_id: int) -> None:
        """On its former port, with its former data."""
        self.servers.start_broker(broker_id - self._first)

    @contextmanager
    def without_broker(self, broker_id: int) -> Iterator[None]:
        """The broker is stopped for the length of the block."""
        self.stop_broker(broker_id)
        try:
            yield
        finally:
            self.start_broker(broker_id)

    @contextmanager
    def standing_still(self, broker_id: int) -> Iterator[None]:
        """A broker, or for 0 the master, does nothing for the length of the block, and then goes on where it was. Its
        connections stay. The embedded servers are one process, so that all of them stand still."""
        servers = self.servers
        if isinstance(servers, ApacheTubeMQ):
            with servers.standing_still(broker_id - 1 if broker_id else None):
                yield
            return
        over, stands = threading.Event(), threading.Event()

        def stand(_: object) -> None:
            stands.set()
            over.wait(_LONGEST_STAND_SECONDS)

        def hold() -> None:
            with contextlib.suppress(TimeoutError):  # a call may not take so long; what it began goes on
                servers.inspect(stand)

        holding = threading.Thread(target=hold)
        holding.start()
        try:
            assert stands.wait(_STANDS_SECONDS)
            yield
        finally:
            over.set()
            holding.join()

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


def to_config(topics: Sequence[TopicSpec]) -> list[TopicConfig]:
    """The same topics for the embedded servers."""
    return [TopicConfig(topic.name, topic.num_stores, topic.num_partitions) for topic in topics]
