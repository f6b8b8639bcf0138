"""Consumer groups of the master: their kinds, their members, and who may join."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from embedded_tubemq.common.codes import Code
from embedded_tubemq.common.peer import Peer
from embedded_tubemq.common.refusal import Refusal
from embedded_tubemq.master.balance_events import EventQueues
from tubeclient.keys import PartitionKey

__all__ = ["Consumer", "ConsumerGroup", "GroupBalance", "GroupKind", "Joining"]


class GroupKind(StrEnum):
    """Who assigns a group's partitions (source: ConsumeType): the master, the master with offsets that the clients
    gave, or the clients."""

    UNBOUND = "unbound"
    BOUND = "bound"
    CLIENT_BALANCE = "client-rebalance"


@dataclass(frozen=True, slots=True)
class Joining:
    """What a client that registers says of its group. All members say the same, but for client, node and offsets."""

    client_id: str
    kind: GroupKind
    topics: frozenset[str]
    filters: Mapping[str, frozenset[str]]
    source_count: int = -2
    node_id: int = -2
    session_key: str = ""
    select_big: bool = True
    """Of two clients' offsets for one partition the larger counts."""
    offsets: Mapping[PartitionKey, int] = field(default_factory=dict)
    """Where a bound group shall begin."""


@dataclass(slots=True)
class Consumer:
    """A client: its registration and its last report."""

    client_id: str
    source_count: int
    node_id: int
    peer: Peer
    deadline_ms: int
    partitions: tuple[PartitionKey, ...] = ()
    assigned_ms: int = -2
    """When a client-balance client last replaced its list of partitions; negative: never."""
    has_reported: bool = False
    """Of a group that the master balances: whether `partitions` says something yet."""
    offsets: Mapping[PartitionKey, int] = field(default_factory=dict)
    """Of a bound group: what the client gave."""


@dataclass(slots=True)
class GroupBalance:
    """Of a group that the master balances: how far it is."""

    events: EventQueues = field(default_factory=EventQueues)
    unfinished_rounds: int = 0
    """Rounds that left the group alone, because its clients were not done with an earlier one."""
    not_allocated: bool = True
    """No client has done anything yet that it was told."""
    required: dict[PartitionKey, str] = field(default_factory=dict)
    """Of a bound group: whose offset counts for a partition."""
    required_rounds: int = 0
    """Rounds that handed out `required`."""
    waiting_rounds: int = 0
    """Rounds that waited for the group's last client."""
    brokers_per_client: int | None = None
    """As the master saw it in the group's first round; None before it."""


@dataclass(slots=True)
class ConsumerGroup:
    """The first client sets everything that clients must agree on; it holds until the group is empty."""

    name: str
    first: Joining
    consumers: dict[str, Consumer] = field(default_factory=dict)
    jump_to_end_id: int = -2
    """Order id (ms) of "consume from the end", which clients receive; negative: none."""
    balance: GroupBalance = field(default_factory=GroupBalance)

    @property
    def kind(self) -> GroupKind:
        """Who assigns its partitions."""
        return self.first.kind

    @property
    def topics(self) -> frozenset[str]:
        """What it reads."""
        return self.first.topics

    @property
    def filters(self) -> Mapping[str, frozenset[str]]:
        """Tags by topic; topics without a filter are missing."""
        return self.first.filters

    def check(self, joining: Joining) -> None:
        """Refuse a client that does not fit the group, with the first reason in TubeMQ's order."""
        who, first = joining.client_id, self.first
        if joining.kind != self.kind:
            raise Refusal(Code.CONSUME_TYPE_CONFLICT, f"{who} is {joining.kind}; the group is {self.kind}")
        if joining.topics != self.topics:
            raise Refusal(
                Code.TOPIC_SET_CONFLICT,
                f"{who} wants topics {sorted(joining.topics)}; the group reads {sorted(self.topics)}",
            )
        if joining.filters != self.filters:
            raise Refusal(
                Code.FILTER_SET_CONFLICT,
                f"{who} wants filters {_readable(joining.filters)}; the group reads with {_readable(self.filters)}",
            )
        if self.kind is GroupKind.BOUND:
            if joining.session_key != first.session_key:
                raise Refusal(
                    Code.SESSION_KEY_CONFLICT,
                    f"{who} has session key {joining.session_key}; the group has {first.session_key}",
                )
            if joining.select_big != first.select_big:
                raise Refusal(
                    Code.SELECT_BIG_CONFLICT,
                    f"{who} has selectBig {joining.select_big}; the group has {first.select_big}",
                )
            self._check_source_count(joining)
        elif self.kind is GroupKind.CLIENT_BALANCE and first.source_count > 0:
            self._check_source_count(joining)
            for other in self.consumers.values():
                if other.node_id == joining.node_id and other.client_id != who:
                    raise Refusal(
                        Code.NODE_ID_CONFLICT,
                        f"nodeId {joining.node_id}, wanted by {who}, belongs to {other.client_id}",
                    )

    def join(self, joining: Joining, peer: Peer, deadline_ms: int) -> Consumer:
        """Admit a client that `check` let pass, or renew it; returns it."""
        consumer = self.consumers.get(joining.client_id)
        if consumer is None:
            count, node = joining.source_count, joining.node_id
            consumer = Consumer(joining.client_id, count, node, peer, deadline_ms, offsets=joining.offsets)
            self.consumers[joining.client_id] = consumer
            self._book(joining)
        consumer.deadline_ms = deadline_ms
        if self.kind is GroupKind.CLIENT_BALANCE:  # what else comes with a second registration TubeMQ passes over
            consumer.node_id, consumer.source_count, consumer.peer = joining.node_id, joining.source_count, peer
        return consumer

    def remove(self, client_id: str) -> None:
        """Drop a client, and what it was told to do."""
        self.consumers.pop(client_id, None)
        balance = self.balance
        balance.events.forget(client_id)
        balance.required = {key: client for key, client in balance.required.items() if client != client_id}

    def expire(self, now_ms: int) -> list[str]:
        """Drop clients that were silent too long; returns their ids."""
        gone = [client_id for client_id, consumer in self.consumers.items() if now_ms >= consumer.deadline_ms]
        for client_id in gone:
            self.remove(client_id)
        return gone

    def _check_source_count(self, joining: Joining) -> None:
        if joining.source_count != self.first.source_count:
            raise Refusal(
                Code.SOURCE_COUNT_CONFLICT,
                f"{joining.client_id} has sourceCount {joining.source_count}; the group has {self.first.source_count}",
            )

    def _book(self, joining: Joining) -> None:
        """Note the partitions that the client gave offsets for, unless another client's offset counts."""
        for key, offset in joining.offsets.items():
            owner = self.balance.required.get(key)
            if owner is not None:
                other = self.consumers[owner].offsets[key]
                if offset < other if self.first.select_big else offset >= other:
                    continue
            self.balance.required[key] = joining.client_id


def _readable(filters: Mapping[str, frozenset[str]]) -> dict[str, list[str]]:
    return {topic: sorted(tags) for topic, tags in sorted(filters.items())}
