"""The master's part for groups whose partitions it hands out: rounds, and what goes with heartbeats.

Source: TMaster (processServerBalance, consumerHeartbeatC2M). Rounds come at a fixed pace, the first one pace after the
master's start (TubeMQ does not use its setting firstBalanceDelayAfterStartMs). No I/O; the caller supplies the time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from embedded_tubemq.common.catalogue import Catalogue
from embedded_tubemq.common.codes import Code
from embedded_tubemq.common.refusal import Refusal
from embedded_tubemq.master.allocation import Allocation, first_allocation, next_allocation, required_allocation
from embedded_tubemq.master.balance_events import planned_events
from embedded_tubemq.master.groups import Consumer, ConsumerGroup, GroupKind
from tubeclient.errors import ProtocolError
from tubeclient.keys import PartitionKey
from tubeclient.wire.proto import master_pb2
from tubeclient.wire.strings import encode_subscription, parse_subscription

__all__ = ["ServerBalance"]

PATIENCE_ROUNDS = 10
"""So many rounds wait for a group's clients to report; then what they were told is forgotten."""

REQUIRED_ROUNDS = 2
"""So many rounds hand out the partitions that a bound group gave offsets for; then it is balanced like others."""


class ServerBalance:
    """The rounds of one master over its `groups`; `choose(n)` returns a number below n."""

    def __init__(
        self,
        catalogue: Catalogue,
        groups: Mapping[str, ConsumerGroup],
        period_ms: int,
        choose: Callable[[int], int] = random.randrange,
    ) -> None:
        self._catalogue = catalogue
        self._groups = groups
        self._period_ms = period_ms
        self._choose = choose
        self._next_round_ms: int | None = None
        self._round_id = 0

    def tick(self, now_ms: int) -> None:
        """Hold a round when due."""
        if self._next_round_ms is None:
            self._next_round_ms = now_ms + self._period_ms
        elif now_ms >= self._next_round_ms:
            self._next_round_ms = now_ms + self._period_ms
            self._hold_round()

    def take_registration(self, group: ConsumerGroup, consumer: Consumer, request: Any) -> None:
        """What a client that registers has: something if it comes back, such as after a restart of the master."""
        if request.subscribeInfo:
            self._take_report(consumer, request.subscribeInfo)
        if request.subscribeInfo or (request.HasField("notAllocated") and not request.notAllocated):
            group.balance.not_allocated = False

    def take_heartbeat(self, group: ConsumerGroup, consumer: Consumer, request: Any) -> None:
        """What a client says it has, and that it has done what it was told."""
        if request.reportSubscribeInfo:
            self._take_report(consumer, request.subscribeInfo)
        consumer.has_reported = True
        if request.HasField("event") and request.event.rebalanceId > 0:
            group.balance.not_allocated = False
            group.balance.events.done(consumer.client_id)

    def add_event(self, response: Any, group: ConsumerGroup, consumer: Consumer) -> None:
        """Tell the client what to do next, unless it was told before."""
        event = group.balance.events.next_to_send(consumer.client_id)
        if event is not None:
            texts = self._subscriptions(event.partitions, group, consumer)
            response.event.CopyFrom(
                master_pb2.EventProto(rebalanceId=event.round_id, opType=event.kind, subscribeInfo=texts)
            )

    def _hold_round(self) -> None:
        self._round_id += 1
        for group in self._groups.values():
            if group.kind is not GroupKind.CLIENT_BALANCE and group.consumers and not self._waits(group):
                self._balance(group)

    def _waits(self, group: ConsumerGroup) -> bool:
        """Whether this round leaves the group alone, because clients have not done yet what they were told."""
        balance = group.balance
        waiting = balance.events.clients()
        if waiting and balance.unfinished_rounds >= PATIENCE_ROUNDS:
            for client in waiting:
                balance.events.forget(client)
            waiting = set()
        balance.unfinished_rounds = balance.unfinished_rounds + 1 if waiting else 0
        return bool(waiting)

    def _balance(self, group: ConsumerGroup) -> None:
        partitions = self._partitions(group)
        held = {name: one.partitions if one.has_reported else None for name, one in group.consumers.items()}
        wanted = self._required(group, partitions)
        if wanted is None:
            first = self._round_id == 1
            if group.balance.brokers_per_client is None and (first or group.kind is GroupKind.UNBOUND):
                group.balance.brokers_per_client = self._online_brokers() // len(held)
            wanted = first_allocation(held, partitions) if first else next_allocation(held, partitions, self._choose)
        for client, events in planned_events(self._round_id, held, wanted).items():
            group.balance.events.add(client, events)

    def _required(self, group: ConsumerGroup, partitions: Iterable[PartitionKey]) -> Allocation | None:
        """What a bound group gets while nobody has taken what it gave offsets for; None: it is like other groups."""
        balance = group.balance
        if not (balance.not_allocated and balance.required and balance.required_rounds < REQUIRED_ROUNDS):
            return None
        if len(group.consumers) < group.first.source_count:
            balance.waiting_rounds += 1
            return {}
        balance.required_rounds += 1
        return required_allocation(group.consumers, balance.required, partitions)

    def _online_brokers(self) -> int:
        return sum(broker.online for broker in self._catalogue.brokers())

    def _partitions(self, group: ConsumerGroup) -> list[PartitionKey]:
        layouts = self._catalogue.consumer_layouts(group.topics)
        return [key for layout in layouts if layout.subscribable for key in layout.partitions()]

    def _take_report(self, consumer: Consumer, texts: Iterable[str]) -> None:
        try:
            # "client@group#broker#partition"
            held = {parse_subscription(text.partition("#")[2])[1] for text in texts if text.strip()}
        except ProtocolError as error:
            raise Refusal(Code.BAD_REQUEST, str(error)) from error
        consumer.partitions, consumer.has_reported = tuple(sorted(held)), True

    def _subscriptions(self, keys: Iterable[PartitionKey], group: ConsumerGroup, consumer: Consumer) -> list[str]:
        brokers = {broker.info.broker_id: broker.info_for(consumer.peer) for broker in self._catalogue.brokers()}
        who = f"{consumer.client_id}@{group.name}"
        return [f"{who}#{encode_subscription(brokers[key.broker_id], key)}" for key in keys if key.broker_id in brokers]
