"""The requests of a reader to a broker, and how requests prove who the client is: user and signature, if there is a
user, and the master's visit token.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from tubeclient.keys import BrokerInfo, PartitionKey
from tubeclient.wire.proto import broker_pb2
from tubeclient.wire.signature import Signed
from tubeclient.wire.strings import encode_subscription

LEASE_BEAT_MS = 8_000.0
"""Time between heartbeats. A broker's lease of a partition is 30 s, at least 20 s (consumerRegTimeoutMs)."""

LIVE_DATA_PRIORITY = 303
"""qryPriorityId for readers with filters: read from memory too. Without it they get flushed data only."""

REGISTER = 31
UNREGISTER = 32

AT_MIN_IF_NEW, AT_MAX = 0, 2
"""readStatus of a registration: begin at the first message if the group has no position, or at the end always."""
_ROLL_BACK = 1
"""readStatus of an unregister that does not commit the last pack."""

FREE = 411
"""The code if no client has the partition."""

TAKEN = 412
"""The code if another client has the partition."""


_NO_TOKEN = -2  # TBaseConstants.META_VALUE_UNDEFINED


class Authority:
    """The proof of who we are, shared by all calls of one client.

    `sign` makes a signature with the present time; None for a client without a user. Masters hand out `visit_token`, a
    number that they renew every few minutes. Brokers that check it remember the last ones.

    Every request that can carry the user's signature does. (Apache's Java clients leave it out until a server asks
    for it, and servers never ask: with authentication on they refuse such a request with 415 instead.)
    """

    def __init__(self, sign: Callable[[], Signed] | None = None, visit_token: int | None = None) -> None:
        self.visit_token = visit_token
        self._sign = sign

    def to_master(self, request: Any) -> None:
        """Fill in the `authInfo` of a request to a master."""
        if self._sign is None:
            return
        signed = self._sign()
        info = request.authInfo.authInfo
        info.userName, info.timestamp, info.nonce = signed.user, signed.timestamp_ms, signed.nonce
        info.othParams, info.signature = "", signed.signature

    def to_broker(self, request: Any) -> None:
        """Fill in the `authInfo` of a request that sends, registers or beats; fetches and commits have none."""
        request.authInfo.visitAuthorizedToken = _NO_TOKEN if self.visit_token is None else self.visit_token
        if self._sign is not None:
            request.authInfo.authAuthorizedToken = self._sign().joined

    def take(self, response: Any) -> None:
        """Keep the visit token of a master's answer, if it has one."""
        if "authorizedInfo" in response.DESCRIPTOR.fields_by_name and response.HasField("authorizedInfo"):
            self.visit_token = response.authorizedInfo.visitAuthorizedToken


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads. To a broker, `client_id` owns partitions and `group` has positions."""

    group: str
    client_id: str
    authority: Authority = field(default_factory=Authority)

    def in_life(self, number: int) -> Reader:
        """The same reader under the client id of that number. 0 is its own."""
        return replace(self, client_id=f"{self.client_id}.{number}") if number else self

    def register(
        self, key: PartitionKey, offset: int | None, *, status: int = AT_MIN_IF_NEW, filters: Collection[str] = ()
    ) -> broker_pb2.RegisterRequestC2B:
        """Take a partition and move the group to `offset`. None: begin where `status` says."""
        return self._registration(
            key,
            opType=REGISTER,
            readStatus=status,
            filterCondStr=sorted(filters),
            currOffset=offset,
            qryPriorityId=LIVE_DATA_PRIORITY if filters else None,
        )

    def unregister(self, key: PartitionKey) -> broker_pb2.RegisterRequestC2B:
        """Give a partition back. What was fetched and not committed is rolled back."""
        return self._registration(key, opType=UNREGISTER, readStatus=_ROLL_BACK)

    def _registration(self, key: PartitionKey, **more: Any) -> broker_pb2.RegisterRequestC2B:
        request = broker_pb2.RegisterRequestC2B(
            clientId=self.client_id, groupName=self.group, topicName=key.topic, partitionId=key.partition_id, **more
        )
        self.authority.to_broker(request)
        return request

    def beat(
        self, broker: BrokerInfo, keys: Iterable[PartitionKey], *, filtered: bool
    ) -> broker_pb2.HeartBeatRequestC2B:
        """Keep the leases of partitions. `filtered`: some of them have filters."""
        request = broker_pb2.HeartBeatRequestC2B(
            clientId=self.client_id,
            groupName=self.group,
            readStatus=0,
            partitionInfo=[encode_subscription(broker, key) for key in keys],
            # Each heartbeat sets it for all of them. For those without a filter it is the default.
            qryPriorityId=LIVE_DATA_PRIORITY if filtered else None,
        )
        self.authority.to_broker(request)
        return request

    def fetch(self, key: PartitionKey, *, commit: bool, unlimited: bool) -> broker_pb2.GetMessageRequestC2B:
        """Ask for a pack. `commit`: commit what the last fetch noted first. `unlimited`: the broker's own flow control
        does not hold for this reader.
        """
        return broker_pb2.GetMessageRequestC2B(
            clientId=self.client_id,
            partitionId=key.partition_id,
            groupName=self.group,
            topicName=key.topic,
            lastPackConsumed=commit,
            manualCommitOffset=False,
            escFlowCtrl=unlimited,
        )

    def commit(self, key: PartitionKey, *, consumed: bool) -> broker_pb2.CommitOffsetRequestC2B:
        """Commit what the last fetch noted, or drop it."""
        return broker_pb2.CommitOffsetRequestC2B(
            clientId=self.client_id,
            topicName=key.topic,
            partitionId=key.partition_id,
            groupName=self.group,
            lastPackConsumed=consumed,
        )
