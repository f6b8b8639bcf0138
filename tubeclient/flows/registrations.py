"""Taking partitions, keeping and giving them back, as a client of a group that balances itself.

One `Registrations` is shared by all threads of a consumer; its methods are flows, run one step at a time.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, Literal

from tubeclient.errors import (
    ClientClosed,
    ConfigurationError,
    ConnectError,
    DataLoss,
    DeadlineExceeded,
    PartitionOccupied,
    PartitionUnavailable,
    TransportError,
    TubeError,
)
from tubeclient.flows.authority import Authority
from tubeclient.flows.effects import Emit, Flow, Notify, Now, Sleep, WallClock, backoff_ms, call, checked
from tubeclient.flows.holdings import BrokerLine, Holding, Holdings, Phase
from tubeclient.flows.read_range import LIVE_DATA_PRIORITY, REGISTER, ROLL_BACK, UNREGISTER
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey
from tubeclient.metadata import ClusterView
from tubeclient.wire.methods import Method
from tubeclient.wire.proto import broker_pb2

__all__ = [
    "CHANGED",
    "Assigned",
    "BootstrapOffset",
    "Lost",
    "ReadPlan",
    "Registrations",
    "Revoking",
    "StartFrom",
]


class BootstrapOffset(IntEnum):
    """Where a partition may be connected besides an index offset."""

    STORED = -1
    """Go on where the group stands."""
    EARLIEST = -10
    """The first message the broker holds."""
    LATEST = -11
    """Behind the last message the broker holds."""


CHANGED: Final = "partitions changed"
"""The signal on which calls wait for partitions; sent whenever one may have become usable, or free."""

StartFrom = Literal["earliest", "latest", "always_latest"]

WAIT_SLICE_MS: Final = 250.0
"""Waits look again that often, whatever happens."""

_RELEASE_LIMIT_MS = 15_000.0
_STATUS_OF_START: dict[StartFrom, int] = {"earliest": 0, "latest": 1, "always_latest": 2}
_AT_MIN_IF_NEW, _AT_MAX = 0, 2


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """How a consumer reads; the same for all its partitions."""

    group: str
    client_id: str
    filters: Mapping[str, frozenset[str]]
    start_from: StartFrom = "latest"
    """Where a partition begins that the group has no position for; "always_latest": whether it has one or not."""
    prefetch: int = 2
    """Packs that are asked for ahead of the calls that wait for one."""
    confirm_timeout_ms: float = 60_000
    """A pack that is not confirmed for so long is given up, and read again."""
    fail_on_data_loss: bool = True
    authority: Authority = field(default_factory=Authority)


@dataclass(frozen=True, slots=True)
class Assigned:
    """Emitted: this partition is held from now on, and reading begins at `offset`."""

    partition: PartitionKey
    offset: int


@dataclass(frozen=True, slots=True)
class Revoking:
    """Emitted: this partition is about to be given back; a pack of it that is out may still be confirmed."""

    partition: PartitionKey


@dataclass(frozen=True, slots=True)
class Lost:
    """Emitted: this partition is gone; unconfirmed packs of it come again to whoever reads it next."""

    partition: PartitionKey
    error: TubeError


class Registrations:
    """The partitions of one consumer, held at their brokers."""

    def __init__(self, plan: ReadPlan, rng: random.Random) -> None:
        self.plan = plan
        self.holdings = Holdings()
        self.closed = False
        self.rng = rng
        self._seen: set[PartitionKey] = set()

    def check_open(self) -> None:
        """ClientClosed once the consumer was closed."""
        if self.closed:
            raise ClientClosed("this consumer is closed")

    def connect(self, view: ClusterView, key: PartitionKey, offset: int, *, timeout_ms: float) -> Flow[int]:
        """Hold a partition from `offset` on, or move one that is held there; returns the offset it begins at.

        Passing refusals (410 above all) and faults are tried again for `timeout_ms`. Raises ConfigurationError,
        PartitionUnavailable, DataLoss, or what the last attempt met.
        """
        self.check_open()
        if not view.has(key):
            topics = ", ".join(sorted({layout.topic for layout in view.layouts})) or "(none)"
            raise ConfigurationError(
                f"partition {key} is not among those of topics {topics}; a topic that grew shows it within a minute"
            )
        if not view.is_subscribable(key):
            raise PartitionUnavailable(f"partition {key} takes no readers now", partition=str(key))
        now: float = yield Now()
        deadline = now + timeout_ms
        holding = yield from self._settled(key, max(deadline, now + _RELEASE_LIMIT_MS))
        known = holding is not None
        if holding is None:
            line = self.holdings.line(view.broker_of(key))
            holding = Holding(key, line, self.plan.filters.get(key.topic, frozenset()))
            self.holdings.by_key[key] = holding
        try:
            start = yield from self._register(holding, offset, deadline)
        except TubeError as error:
            passing = known and isinstance(error, TransportError)
            if passing or isinstance(error, ConnectError | DeadlineExceeded):  # nor would it hear that we let go
                yield from self.line_down(holding.line)
            if not passing:
                yield from self._forget(holding, free_it=not isinstance(error, PartitionOccupied))
                if known:
                    yield Emit(Lost(key, error))
            yield Notify(CHANGED)
            raise
        except GeneratorExit:  # the caller was interrupted
            self.holdings.drop_work(holding)
            del self.holdings.by_key[key]
            raise
        yield Notify(CHANGED)
        if not known:
            yield Emit(Assigned(key, start))
        return start

    def disconnect(self, key: PartitionKey, *, wait_ms: float) -> Flow[bool]:
        """Give a partition back; false where it is not held.

        Emits `Revoking` first and then waits up to `wait_ms` for a pack that is out; unconfirmed, it is rolled back.
        """
        holding = self.holdings.by_key.get(key)
        if holding is None or holding.leaving:
            return False
        holding.leaving = True
        if holding.phase is Phase.FETCHING:
            self.holdings.set_idle(holding)
        yield Emit(Revoking(key))
        deadline = (yield Now()) + wait_ms
        while (yield Now()) < deadline and self._busy(holding):
            yield Sleep(WAIT_SLICE_MS, CHANGED)
        if self.holdings.by_key.get(key) is not holding:
            return False
        yield from self._forget(holding, free_it=True)
        yield Notify(CHANGED)
        return True

    def wait_registered(self, timeout_ms: float) -> Flow[bool]:
        """Wait until any partition is held; whether one is."""
        deadline = (yield Now()) + timeout_ms
        while not self.holdings.registered():
            self.check_open()
            now: float = yield Now()
            if now >= deadline:
                return False
            yield Sleep(min(deadline - now, WAIT_SLICE_MS), CHANGED)
        return True

    def jump_to_latest(self) -> Flow[None]:
        """The master's order: every partition goes on behind the last message there is."""
        for key in self.holdings.registered():
            holding = self.holdings.by_key.get(key)
            if holding is not None:
                yield from self._move(holding, BootstrapOffset.LATEST)

    def rejoin(self, holding: Holding) -> Flow[None]:
        """Register a partition again that the broker has forgotten. Emits `Lost` where that fails for good.

        The group stands where it was confirmed, with two exceptions: a broker that crashed knows an older position, and
        one that was stopped cleanly has taken what it had noted for us as confirmed (DefaultOffsetManager.close),
        whether it was handed out or not.
        """
        confirmed = holding.confirmed
        yield from self._move(holding, confirmed if holding.noted else BootstrapOffset.STORED)
        if holding.phase is Phase.IDLE and holding.confirmed < confirmed:
            yield from self._move(holding, confirmed)
        if holding.phase is Phase.IDLE and holding.confirmed > confirmed:
            holding.expected = confirmed  # where that has expired, the next pack shows it

    def lose(self, holding: Holding, error: TubeError) -> Flow[None]:
        """The partition is somebody else's now, or not to be had."""
        if self.holdings.by_key.get(holding.key) is holding:
            del self.holdings.by_key[holding.key]
            self.holdings.drop_work(holding)
            holding.phase = Phase.GONE
            yield Notify(CHANGED)
            yield Emit(Lost(holding.key, error))

    def line_down(self, line: BrokerLine) -> Flow[None]:
        """The broker does not answer: nothing is asked of it until the keeper of its leases has had an answer.

        What was asked for is forgotten, and with it how far a fetch may have moved: the next one repeats it.
        """
        line.up = False
        for holding in self.holdings.of_line(line):
            if holding.epoch > 0 and holding.phase in (Phase.FETCHING, Phase.REGISTERING):
                holding.expected, holding.commit_next = None, False
                self.holdings.set_idle(holding)
        yield Notify(CHANGED)
        yield Notify(line.signal)

    def follow(self, view: ClusterView) -> None:
        """Take brokers' addresses as the master shows them now."""
        for broker_id, line in self.holdings.lines.items():
            line.info = view.brokers.get(broker_id, line.info)

    def seek(self, holding: Holding, offset: int) -> Flow[int]:
        """Register a held partition at `offset`; returns where the broker put it. Raises what the attempt met."""
        return (yield from self._register(holding, offset, 0.0, clamp=True))

    def _settled(self, key: PartitionKey, deadline: float) -> Flow[Holding | None]:
        """The holding of a partition, once nobody is about to take it or to give it back."""
        while (holding := self.holdings.by_key.get(key)) is not None:
            if not holding.leaving and holding.phase is not Phase.REGISTERING:
                return holding
            if (yield Now()) >= deadline:
                raise PartitionUnavailable(f"partition {key} is being taken or given back", partition=str(key))
            yield Sleep(WAIT_SLICE_MS, CHANGED)
        return None

    @staticmethod
    def _busy(holding: Holding) -> bool:
        return holding.phase in (Phase.DELIVERED, Phase.CONFIRMING, Phase.REGISTERING)

    def _move(self, holding: Holding, offset: int) -> Flow[None]:
        if holding.leaving or holding.phase in (Phase.REGISTERING, Phase.GONE):
            return
        try:
            yield from self._register(holding, offset, 0.0, clamp=True)
        except TransportError:
            yield from self.line_down(holding.line)
        except TubeError as error:
            yield from self.lose(holding, error)
        yield Notify(CHANGED)

    def _register(self, holding: Holding, offset: int, deadline: float, *, clamp: bool = False) -> Flow[int]:
        """Register, trying again until `deadline`; on failure the phase stays REGISTERING for the caller to end."""
        holding.phase = Phase.REGISTERING
        self.holdings.drop_work(holding)
        first = holding.key not in self._seen
        attempt = 0
        while True:
            try:
                answer = yield from call(
                    holding.line.info.address, Method.PARTITION_REGISTER, self._register_request(holding, offset, first)
                )
                checked(
                    answer,
                    f"connecting partition {holding.key} for group {self.plan.group} at broker {holding.line.info}",
                    address=holding.line.info.address,
                    partition=str(holding.key),
                )
                break
            except TubeError as error:
                pause = backoff_ms(attempt, self.rng.random())
                attempt += 1
                if not error.retriable or (yield Now()) + pause > deadline:
                    raise
                yield Sleep(pause)
                self.check_open()
        self._seen.add(holding.key)
        start: int = answer.currOffset
        holding.epoch += 1
        holding.line.up = True
        holding.confirmed, holding.end = start, max(answer.maxOffset, start)
        holding.expected, holding.commit_next, holding.noted, holding.failures = start, False, False, 0
        holding.updated_ms = yield WallClock()
        if offset >= 0 and start != offset - offset % INDEX_ENTRY_BYTES and not clamp and self.plan.fail_on_data_loss:
            raise DataLoss(
                f"partition {holding.key} cannot be read from {offset} on: broker {holding.line.info} holds "
                f"offsets from {start if start > offset else 'its beginning'} to {holding.end}. "
                "Connect at an offset it holds, or set fail_on_data_loss=False to go to the nearest one",
                partition=str(holding.key),
                wanted=offset,
                found=start,
            )
        self.holdings.set_idle(holding)
        return start

    def _register_request(self, holding: Holding, offset: int, first: bool) -> broker_pb2.RegisterRequestC2B:
        status, current = _AT_MIN_IF_NEW, offset if offset >= 0 else None
        if offset == BootstrapOffset.LATEST:
            status = _AT_MAX
        elif offset == BootstrapOffset.EARLIEST:
            current = 0
        elif offset < 0 and first:
            status = _STATUS_OF_START[self.plan.start_from]
        request = broker_pb2.RegisterRequestC2B(
            opType=REGISTER,
            clientId=self.plan.client_id,
            groupName=self.plan.group,
            topicName=holding.key.topic,
            partitionId=holding.key.partition_id,
            readStatus=status,
            filterCondStr=sorted(holding.filters),
            currOffset=current,
            qryPriorityId=LIVE_DATA_PRIORITY if holding.filters else None,
        )
        self.plan.authority.to_broker(request)
        return request

    def _forget(self, holding: Holding, *, free_it: bool) -> Flow[None]:
        """Drop a partition and tell the broker, best effort: it frees it by itself when the lease ends."""
        holding.phase = Phase.GONE
        self.holdings.drop_work(holding)
        if free_it and holding.line.up:
            request = broker_pb2.RegisterRequestC2B(
                opType=UNREGISTER,
                clientId=self.plan.client_id,
                groupName=self.plan.group,
                topicName=holding.key.topic,
                partitionId=holding.key.partition_id,
                readStatus=ROLL_BACK,
            )
            self.plan.authority.to_broker(request)
            try:
                yield from call(holding.line.info.address, Method.PARTITION_REGISTER, request)
            except TransportError:
                yield from self.line_down(holding.line)
            except TubeError:
                pass
        if self.holdings.by_key.get(holding.key) is holding:
            del self.holdings.by_key[holding.key]
