"""What a reader asks of a broker about its partitions: the requests, as they go out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tubeclient.errors import PartitionOccupied
from tubeclient.flows.authority import Authority
from tubeclient.flows.effects import Flow
from tubeclient.keys import BrokerInfo, PartitionKey
from tubeclient.wire.proto import broker_pb2
from tubeclient.wire.strings import encode_subscription

__all__ = [
    "AT_MAX",
    "AT_MIN_IF_NEW",
    "FREE",
    "LEASE_BEAT_MS",
    "LIVE_DATA_PRIORITY",
    "REGISTER",
    "TAKEN",
    "UNREGISTER",
    "Reader",
    "in_first_free",
]

LEASE_BEAT_MS = 8_000.0
"""How often to beat: a broker's lease of a partition is 30 s, 20 s at the least (consumerRegTimeoutMs)."""

LIVE_DATA_PRIORITY = 303
"""qryPriorityId: read memory too, filtered or not; filtered readers otherwise see flushed data only."""

REGISTER = 31
UNREGISTER = 32

AT_MIN_IF_NEW, AT_MAX = 0, 2
"""readStatus of a registration: where a group without a position begins, or that it goes to the end in any case."""
_ROLL_BACK = 1
"""readStatus of an unregister whose last pack is not to be committed."""

FREE = 411
"""The code for a partition that no client has."""

TAKEN = 412
"""The code for a partition that another client has."""


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads: brokers know the owner of a partition by `client_id`, and positions by `group`."""

    group: str
    client_id: str
    authority: Authority = field(default_factory=Authority)

    def in_life(self, number: int) -> Reader:
        """The same reader under another client id, one for each number; for 0 it is its own."""
        return replace(self, client_id=f"{self.client_id}.{number}") if number else self

    def register(
        self, key: PartitionKey, offset: int | None, *, status: int = AT_MIN_IF_NEW, filters: Collection[str] = ()
    ) -> broker_pb2.RegisterRequestC2B:
        """Own a partition and move the group to `offset`; None leaves it where `status` says."""
        request = broker_pb2.RegisterRequestC2B(
            opType=REGISTER,
            clientId=self.client_id,
            groupName=self.group,
            topicName=key.topic,
            partitionId=key.partition_id,
            readStatus=status,
            filterCondStr=sorted(filters),
            currOffset=offset,
            qryPriorityId=LIVE_DATA_PRIORITY if filters else None,
        )
        self.authority.to_broker(request)
        return request

    def unregister(self, key: PartitionKey) -> broker_pb2.RegisterRequestC2B:
        """Give a partition back; what was fetched and not committed is rolled back."""
        request = broker_pb2.RegisterRequestC2B(
            opType=UNREGISTER,
            clientId=self.client_id,
            groupName=self.group,
            topicName=key.topic,
            partitionId=key.partition_id,
            readStatus=_ROLL_BACK,
        )
        self.authority.to_broker(request)
        return request

    def beat(
        self, broker: BrokerInfo, keys: Iterable[PartitionKey], *, filtered: bool
    ) -> broker_pb2.HeartBeatRequestC2B:
        """Keep the leases of partitions; `filtered`: some of them are read by filters."""
        request = broker_pb2.HeartBeatRequestC2B(
            clientId=self.client_id,
            groupName=self.group,
            readStatus=0,
            partitionInfo=[encode_subscription(broker, key) for key in keys],
            # Each beat sets it anew for all of them; for those without a filter it is the default.
            qryPriorityId=LIVE_DATA_PRIORITY if filtered else None,
        )
        self.authority.to_broker(request)
        return request

    def fetch(self, key: PartitionKey, *, commit: bool, unlimited: bool) -> broker_pb2.GetMessageRequestC2B:
        """Ask for a pack, and first (`commit`) commit what the last fetch noted; `unlimited` is for those whom the
        broker's own flow control does not concern.
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
        """Commit what the last fetch noted, or give it up."""
        return broker_pb2.CommitOffsetRequestC2B(
            clientId=self.client_id,
            topicName=key.topic,
            partitionId=key.partition_id,
            groupName=self.group,
            lastPackConsumed=consumed,
        )


def in_first_free(groups: Sequence[str], register: Callable[[str], Flow[T]]) -> Flow[tuple[str, T]]:
    """Register a partition in the first of these reader groups where it is free: the group, and what `register` gave.

    Raises PartitionOccupied where others have it in all of them, and whatever else `register` raises.
    """
    *others, last = groups
    for group in others:
        try:
            return group, (yield from register(group))
        except PartitionOccupied:
            continue
    return last, (yield from register(last))
