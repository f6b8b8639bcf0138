"""Which partitions of its group a consumer holds: connects and disconnects them, and says what a fault makes of them.

Whatever is not sure makes a partition void. A thread per broker keeps the leases (`leases.py`), and registers void
partitions anew (`registrations.py`). All threads of a consumer share one `Registrar`; its methods are flows, run one
step at a time.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from tubeclient.arguments import given_ms
from tubeclient.errors import (
    ClientClosed,
    ConfigurationError,
    DataLoss,
    NotAvailable,
    PartitionOccupied,
    PartitionTaken,
    PartitionUnavailable,
    RegistrationLost,
    TransportError,
    TubeError,
)
from tubeclient.flows.effects import Emit, Flow, Notify, Now, Sleep
from tubeclient.flows.holding import BrokerLine, ConfirmedPosition, Holding, Holdings, Phase
from tubeclient.flows.read_plan import BootstrapOffset, ReadPlan
from tubeclient.flows.reader import FREE, TAKEN
from tubeclient.flows.registrations import UNKNOWN, Registrations, released
from tubeclient.keys import MAX_OFFSET, PartitionKey
from tubeclient.metadata import ClusterView

_log = logging.getLogger(__name__)

CHANGED: Final = "partitions changed"
"""The signal on which calls wait for partitions. It is sent when one may have become usable, or free."""

WAIT_SLICE_MS: Final = 250.0
"""A wait looks again at least this often."""

_RELEASE_LIMIT_MS = 15_000.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Assigned:
    """Emitted: this partition is held from now on. Reading begins at `offset`."""

    partition: PartitionKey
    offset: int


@dataclass(frozen=True, slots=True)
class Revoking:
    """Emitted: this partition is about to be released. Its unconfirmed pack may still be confirmed."""

    partition: PartitionKey


@dataclass(frozen=True, slots=True)
class Lost:
    """Emitted: this partition is no longer held. Its next reader gets the unconfirmed packs again."""

    partition: PartitionKey
    error: TubeError


class Registrar:
    def __init__(self, plan: ReadPlan, rng: random.Random) -> None:
        self.plan, self.rng = plan, rng
        self.holdings = Holdings()
        self.closed = False
        self.failure: TubeError | None = None
        """The error that ended this consumer for good."""
        self.interrupted = False
        """A call was interrupted, and nobody was told yet that partitions are void."""
        self.left: dict[PartitionKey, ConfirmedPosition] = {}
        """Where partitions stood that were released without the broker's answer."""
        self.registrations = Registrations(plan, rng, self.check_open)

    def check_open(self) -> None:
        """Raise ClientClosed if the consumer was closed, or the error that ended it."""
        if self.closed:
            raise ClientClosed("this consumer is closed")
        if self.failure is not None:
            raise self.failure

    def guarded(self, flow: Flow[T]) -> Flow[T]:
        """A flow whose caller may be interrupted anywhere, with nothing left half done: then all partitions are void,
        but for those whose pack is out. They are registered anew, and what was asked for them comes again."""
        try:
            return (yield from flow)
        except TubeError:
            raise
        except BaseException:
            for holding in list(self.holdings.by_key.values()):
                if holding.leaving or not holding.assigned or holding.phase is Phase.GONE:
                    self.left[holding.key] = holding.last_confirmed_position
                    self.holdings.drop(holding)
                # The interrupted step may be the one that ends a pack: then it is still `out`, and in no phase.
                elif holding.out is None or holding not in self.holdings.in_phase[Phase.DELIVERED]:
                    holding.void()
            self.interrupted = True
            raise

    # What users ask for

    def connect(self, view: ClusterView, key: PartitionKey, offset: int, *, timeout_ms: float) -> Flow[int]:
        """Hold a partition from `offset` on, or move it there if it is held. Returns the offset it begins at.

        Faults and refusals that may pass (410 above all) are tried again for `timeout_ms`. Raises ConfigurationError,
        PartitionUnavailable, DataLoss, or the error of the last attempt. A partition that was held is still held after
        a DataLoss or a TransportError.
        """
        self.check_open()
        _check(view, key, offset)
        now: float = yield Now()
        deadline = now + given_ms(timeout_ms)
        line = self.holdings.line(view.broker_of(key))
        yield Emit(line)
        holding = yield from self._settled(key, max(deadline, now + _RELEASE_LIMIT_MS))
        if holding is None:
            filters = self.plan.filters.get(key.topic, frozenset())
            holding = Holding(key, line, filters, view.stores()[key.store], self.holdings)
            holding.last_position = self.left.get(key)
            self.holdings.by_key[key] = holding
        try:
            start = yield from self.registrations.register(holding, offset, deadline)
        except PartitionUnavailable:  # released meanwhile, or void
            raise
        except TubeError as error:
            if isinstance(error, TransportError):
                holding.void()
                yield from self.line_down(line, error)
            if isinstance(error, PartitionOccupied):
                holding.last_position = UNKNOWN  # its new reader continued from the broker's position
            if not holding.assigned or not isinstance(error, TransportError | DataLoss):
                yield from self.release(holding)
                if holding.assigned:
                    yield Emit(Lost(key, error))
            yield Notify(CHANGED)
            raise
        self.left.pop(key, None)
        if self.closed or holding.leaving:  # meanwhile
            yield from self.release(holding)
            self.check_open()
            raise released(key)
        if not holding.assigned:
            holding.assigned = True
            yield Emit(Assigned(key, start))
        yield Notify(CHANGED)
        return start

    def disconnect(self, key: PartitionKey, *, wait_ms: float) -> Flow[bool]:
        """Give a partition back. False if it is not held.

        Emits `Revoking`, then waits up to `wait_ms` until a pack that is out is confirmed, else rolls it back. Not if
        the consumer is closed while another thread waits so.
        """
        given_ms(wait_ms, "wait_ms")
        holding = self.holdings.by_key.get(key)
        if holding is None or (holding.leaving and not self.closed):
            return False
        if not holding.leaving:
            holding.leaving = True
            yield Emit(Revoking(key))
            deadline = (yield Now()) + wait_ms
            while (yield Now()) < deadline and holding.phase in (Phase.DELIVERED, Phase.COMMITTING, Phase.REGISTERING):
                yield Sleep(WAIT_SLICE_MS, CHANGED)
        if not self.holdings.has(holding):
            return False
        yield from self.release(holding)
        yield Notify(CHANGED)
        return True

    def wait_registered(self, timeout_ms: float) -> Flow[bool]:
        """Wait until any partition is held. True if one is."""
        deadline = (yield Now()) + given_ms(timeout_ms)
        while not self.holdings.assigned():
            self.check_open()
            now: float = yield Now()
            if now >= deadline:
                return False
            yield Sleep(min(deadline - now, WAIT_SLICE_MS), CHANGED)
        return True

    def balance(
        self,
        view: ClusterView,
        ours: Collection[PartitionKey],
        offsets: Mapping[PartitionKey, int],
        *,
        release_wait_ms: float,
    ) -> Flow[dict[PartitionKey, TubeError]]:
        """Give back what is not in `ours` or takes no readers now, then take what is missing.

        A partition begins at its offset in `offsets`, else where the group stands. All releases together wait up to
        `release_wait_ms` for packs that are out. A broker that does not answer is asked once. Returns the partitions
        that could not be taken, and why. Raises errors that no further round would change.
        """
        wanted = {key for key in ours if view.is_subscribable(key)}
        owned = set(self.holdings.assigned())
        deadline = (yield Now()) + release_wait_ms
        for key in sorted(owned - wanted):
            now: float = yield Now()
            yield from self.disconnect(key, wait_ms=max(0.0, deadline - now))
        for key in self.left.keys() - set(ours):  # another node continues them
            del self.left[key]
        refused: dict[PartitionKey, TubeError] = {}
        silent: dict[int, TubeError] = {}
        for key in sorted(wanted - owned):
            if key.broker_id in silent:
                refused[key] = silent[key.broker_id]
                continue
            try:
                yield from self.connect(view, key, offsets.get(key, BootstrapOffset.STORED), timeout_ms=0)
            except TubeError as error:
                if not error.retriable and not isinstance(error, NotAvailable):
                    raise
                refused[key] = error
                if isinstance(error, TransportError):
                    silent[key.broker_id] = error
        return refused

    def jump_to_latest(self) -> Flow[None]:
        """The master's order: every partition goes on after its last message."""
        for holding in self.holdings.by_key.values():
            if holding.assigned:
                holding.jumps = True
                holding.void()
        for line in list(self.holdings.lines.values()):
            yield Notify(line.signal)

    # What goes wrong

    def line_down(self, line: BrokerLine, error: TubeError) -> Flow[None]:
        """The broker gives no answer, or a wrong one. Nothing more is asked of it until it answers a heartbeat."""
        if line.up:
            _log.warning("partitions at broker %s wait; trying again: %s", line.info, error)
        line.up = False
        for holding in self.holdings.of_line(line, Phase.FETCHING):
            holding.void()
        yield Notify(CHANGED)
        yield Notify(line.signal)

    def broken(self, holding: Holding, error: TubeError) -> Flow[bool]:
        """See to a partition whose request failed with this error. False if that says nothing of its registration."""
        if isinstance(error, TransportError):
            holding.void()
            yield from self.line_down(holding.line, error)
        elif isinstance(error, RegistrationLost):
            yield from self.lapsed(holding)
        elif isinstance(error, PartitionTaken):
            yield from self.lose(holding, error)
        else:
            return False
        return True

    def lapsed(self, holding: Holding) -> Flow[None]:
        """The broker does not know that the partition is ours.

        If it surely was not restarted since it said so, the lease ended. Then what it had noted is rolled back, at the
        latest by the next registration, and the group stands where somebody confirmed.
        """
        if (yield from self.registrations.on_same_run(holding)):
            holding.is_unconfirmed = False
        holding.void()
        yield Notify(CHANGED)
        yield Notify(holding.line.signal)

    def lose(self, holding: Holding, error: TubeError) -> Flow[None]:
        """Another client has the partition now, or it is unavailable."""
        if self.holdings.has(holding):
            if not isinstance(error, PartitionOccupied | PartitionTaken):
                self.left[holding.key] = holding.last_confirmed_position
            self.holdings.drop(holding)
            _log.warning("partition %s is lost: %s", holding.key, error)
            yield Notify(CHANGED)
            yield Emit(Lost(holding.key, error))

    def release(self, holding: Holding) -> Flow[None]:
        """Drop a partition and tell the broker, best effort. Without that, it is free when the lease ends."""
        key, registrations = holding.key, self.registrations
        reader = registrations.reader(key)
        # While it is being taken up again, the broker may have another position than it is to have.
        is_back = holding.last_position is None or holding.confirmed == holding.last_position.confirmed
        is_sure = is_back and holding.phase is not Phase.REGISTERING and key not in registrations.unsure
        self.left[key] = holding.last_confirmed_position
        self.holdings.drop(holding)
        if not holding.line.up:
            return
        try:
            code = yield from registrations.unregister(holding, reader)
            if is_sure and (code in (200, TAKEN) or (code == FREE and (yield from registrations.on_same_run(holding)))):
                self.left.pop(key, None)
        except TransportError as error:
            yield from self.line_down(holding.line, error)
        except TubeError:
            pass

    def _settled(self, key: PartitionKey, deadline: float) -> Flow[Holding | None]:
        """Wait until no thread is taking or releasing the partition. Returns its holding, None if there is none."""
        while (holding := self.holdings.by_key.get(key)) is not None:
            if not holding.leaving and holding.phase is not Phase.REGISTERING:
                return holding
            if (yield Now()) >= deadline:
                raise PartitionUnavailable(f"partition {key} is being connected or released", partition=str(key))
            yield Sleep(WAIT_SLICE_MS, CHANGED)
        return None


def _check(view: ClusterView, key: PartitionKey, offset: int) -> None:
    if not view.has(key):
        topics = ", ".join(sorted({layout.topic for layout in view.layouts})) or "(none)"
        raise ConfigurationError(
            f"partition {key} is not among those of topics {topics}; new partitions show up within a minute"
        )
    if offset > MAX_OFFSET or (offset < 0 and offset not in set(BootstrapOffset)):
        raise ConfigurationError(
            f"partition {key} cannot start at {offset}: use an index offset (0 or more), -1 for the group's "
            "position, or a BootstrapOffset"
        )
    if not view.is_subscribable(key):
        raise PartitionUnavailable(f"partition {key} accepts no readers at the moment", partition=str(key))
