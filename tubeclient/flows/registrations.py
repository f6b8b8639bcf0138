"""Takes, keeps and releases partitions in a client-balance group.

All threads of a consumer share one `Registrations`; its methods are flows, run one step at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tubeclient.errors import (
    ConfigurationError,
    ConnectError,
    DataLoss,
    DeadlineExceeded,
    NotAvailable,
    PartitionOccupied,
    PartitionUnavailable,
    TransportError,
    TubeError,
)
from tubeclient.flows.effects import Emit, Flow, Notify, Now, Sleep
from tubeclient.flows.holding import Holding, Phase
from tubeclient.flows.patience import given_ms
from tubeclient.flows.read_plan import BootstrapOffset
from tubeclient.flows.registrar import CHANGED, WAIT_SLICE_MS, Registrar, Standing
from tubeclient.keys import MAX_OFFSET, PartitionKey
from tubeclient.metadata import ClusterView

_RELEASE_LIMIT_MS = 15_000.0
_JUMP_RETRY_MS = 1_000.0


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
class Closed:
    """Emitted: the broker says that this partition is closed or missing, against the master's list."""

    partition: PartitionKey


@dataclass(frozen=True, slots=True)
class Lost:
    """Emitted: this partition is no longer held. Its next reader gets the unconfirmed packs again."""

    partition: PartitionKey
    error: TubeError


class Registrations:
    """The partitions of one consumer, held at their brokers by its `registrar`."""

    def __init__(self, registrar: Registrar) -> None:
        self.registrar = registrar
        self.holdings = registrar.holdings

    def connect(self, view: ClusterView, key: PartitionKey, offset: int, *, timeout_ms: float) -> Flow[int]:
        """Hold a partition from `offset` on, or move it there if it is held. Returns the offset it begins at.

        Faults and refusals that may pass (410 above all) are tried again for `timeout_ms`. Raises ConfigurationError,
        PartitionUnavailable, DataLoss, or the error of the last attempt. A partition that was held is still held after
        a DataLoss or a TransportError.
        """
        self.registrar.check_open()
        given_ms(timeout_ms)
        self._check(view, key, offset)
        now: float = yield Now()
        deadline = now + timeout_ms
        holding = yield from self._settled(key, max(deadline, now + _RELEASE_LIMIT_MS))
        known = held = holding is not None
        left = self.registrar.left.get(key) if offset == BootstrapOffset.STORED else None
        if holding is None:
            line = self.holdings.line(view.broker_of(key))
            filters = self.registrar.plan.filters.get(key.topic, frozenset())
            holding = self.holdings.hold(key, line, filters, view.stores()[key.store])
        try:
            if left is None:
                start = yield from self.registrar.register(holding, offset, deadline)
            else:
                start = yield from self.registrar.take_up(holding, left, deadline)
            self.registrar.left.pop(key, None)
            held = True
        except TubeError as error:
            if isinstance(error, ConnectError | DeadlineExceeded) or (known and isinstance(error, TransportError)):
                yield from self.registrar.line_down(holding.line, error)
            if isinstance(error, PartitionOccupied):
                self.registrar.left.pop(key, None)  # its new reader continued from the broker's position
            if not known or not isinstance(error, TransportError | DataLoss):
                yield from self.registrar.forget(holding, free_it=not isinstance(error, PartitionOccupied))
                if known:
                    yield Emit(Lost(key, error))
            yield Notify(CHANGED)
            if isinstance(error, NotAvailable):
                yield Emit(Closed(key))
            raise
        finally:  # even if the caller was interrupted
            if not held:
                self.holdings.drop(holding)
        if self.registrar.closed or holding.leaving:  # meanwhile
            yield from self.registrar.forget(holding, free_it=True)
            yield Notify(CHANGED)
            self.registrar.check_open()
            raise PartitionUnavailable(f"partition {key} was released during the connect", partition=str(key))
        if not known:
            yield Emit(Assigned(key, start))
        yield Notify(CHANGED)
        return start

    def disconnect(self, key: PartitionKey, *, wait_ms: float, at_once: bool = False) -> Flow[bool]:
        """Give a partition back. False if it is not held.

        Emits `Revoking`, then waits up to `wait_ms` until a pack that is out is confirmed, else rolls it back. With
        `at_once`, a `disconnect` of another thread that still waits is cut short.
        """
        given_ms(wait_ms, "wait_ms")
        holding = self.holdings.by_key.get(key)
        if holding is None or holding.phase is Phase.GONE or (holding.leaving and not at_once):
            return False
        if holding.leaving:
            yield from self.registrar.forget(holding, free_it=True)
            return True
        try:
            holding.leaves()
            yield Emit(Revoking(key))
            deadline = (yield Now()) + wait_ms
            while (yield Now()) < deadline and self._busy(holding):
                yield Sleep(WAIT_SLICE_MS, CHANGED)
            if not self.holdings.has(holding):
                return False
            yield from self.registrar.forget(holding, free_it=True)
        finally:  # even if the caller was interrupted
            self.holdings.drop(holding)
        yield Notify(CHANGED)
        return True

    def wait_registered(self, timeout_ms: float) -> Flow[bool]:
        """Wait until any partition is held. True if one is."""
        deadline = (yield Now()) + given_ms(timeout_ms)
        while not self.holdings.registered():
            self.registrar.check_open()
            now: float = yield Now()
            if now >= deadline:
                return False
            yield Sleep(min(deadline - now, WAIT_SLICE_MS), CHANGED)
        return True

    def jump_to_latest(self) -> Flow[None]:
        """The master's order: every partition goes on after its last message. Ends when all do, or are gone."""
        waiting = [self.holdings.by_key[key] for key in self.holdings.registered()]
        while waiting and not self.registrar.closed:
            left = []
            for holding in waiting:
                move = self.registrar.seek(holding, BootstrapOffset.LATEST, moves=True)
                if not (yield from self._moved(holding, move)):
                    left.append(holding)
            waiting = [holding for holding in left if holding.phase is not Phase.GONE]
            if waiting:
                yield Sleep(_JUMP_RETRY_MS, CHANGED)

    def rejoin(self, holding: Holding) -> Flow[None]:
        """Register a partition again that the broker has forgotten, or that earlier requests may still reach. Emits
        `Lost` if that fails for good.
        """
        noted = holding.noted and not (yield from self.registrar.on_same_run(holding))
        # An existing one comes from an unfinished registration.
        standing = self.registrar.left.get(holding.key, Standing(holding.confirmed, noted))
        yield from self._moved(holding, self.registrar.take_up(holding, standing, 0.0))

    def find_out(self, holding: Holding) -> Flow[int]:
        """Register again to find the group's position after a request without answer. Raises as `register`."""
        noted = not (yield from self.registrar.on_same_run(holding))
        return (yield from self.registrar.take_up(holding, Standing(holding.confirmed, noted), 0.0))

    def lose(self, holding: Holding, error: TubeError) -> Flow[None]:
        """Another client has the partition now, or it is unavailable."""
        if self.holdings.has(holding):
            self.holdings.drop(holding)
            yield Notify(CHANGED)
            yield Emit(Lost(holding.key, error))

    def follow(self, view: ClusterView) -> None:
        """Take the brokers' current addresses from the master."""
        for broker_id, line in self.holdings.lines.items():
            line.info = view.brokers.get(broker_id, line.info)

    @staticmethod
    def _check(view: ClusterView, key: PartitionKey, offset: int) -> None:
        if not view.has(key):
            topics = ", ".join(sorted({layout.topic for layout in view.layouts})) or "(none)"
            raise ConfigurationError(
                f"partition {key} is not among those of topics {topics}; a topic that grew shows it within a minute"
            )
        if offset > MAX_OFFSET or (offset < 0 and offset not in set(BootstrapOffset)):
            raise ConfigurationError(
                f"partition {key} cannot begin at {offset}: use an index offset (0 or more), -1 for the group's "
                "position, or a BootstrapOffset"
            )
        if not view.is_subscribable(key):
            raise PartitionUnavailable(f"partition {key} takes no readers now", partition=str(key))

    def _settled(self, key: PartitionKey, deadline: float) -> Flow[Holding | None]:
        """Wait until no thread is taking or releasing the partition. Returns its holding, None if there is none."""
        while (holding := self.holdings.by_key.get(key)) is not None:
            if not holding.leaving and holding.phase is not Phase.REGISTERING:
                return holding
            if (yield Now()) >= deadline:
                raise PartitionUnavailable(f"partition {key} is being connected or released", partition=str(key))
            yield Sleep(WAIT_SLICE_MS, CHANGED)
        return None

    @staticmethod
    def _busy(holding: Holding) -> bool:
        return holding.phase in (Phase.DELIVERED, Phase.REGISTERING)

    def _moved(self, holding: Holding, move: Flow[int]) -> Flow[bool]:
        """Register a held partition again by `move`, and drop it if that fails for good. True if it was registered."""
        if holding.leaving or holding.phase in (Phase.REGISTERING, Phase.GONE):
            return False
        done = False
        try:
            yield from move
            done = True
        except TransportError as error:
            yield from self.registrar.line_down(holding.line, error)  # the thread that keeps its leases tries again
        except TubeError as error:
            if isinstance(error, PartitionOccupied):
                self.registrar.left.pop(holding.key, None)  # its new reader continued from the broker's position
            yield from self.lose(holding, error)
        except BaseException:  # the caller was interrupted
            if holding.key in self.registrar.left:
                self.holdings.drop(holding)
            raise
        yield Notify(CHANGED)
        return done


def balance_once(
    registrations: Registrations,
    view: ClusterView,
    ours: Collection[PartitionKey],
    offsets: Mapping[PartitionKey, int],
    *,
    release_wait_ms: float,
    doubtful: Collection[int] = (),
) -> Flow[dict[PartitionKey, TubeError]]:
    """Give back what is not in `ours` or takes no readers now, then take what is missing.

    A partition begins at its offset in `offsets`, else where the group stands. All releases together wait up to
    `release_wait_ms` for packs that are out. Brokers whose ids are `doubtful` come last, since each one that does not
    answer costs the time of one call. Returns the partitions that could not be taken, and why. Raises errors
    that no further round would change.
    """
    wanted = {key for key in ours if view.is_subscribable(key)}
    held = set(registrations.holdings.registered())
    deadline = (yield Now()) + release_wait_ms
    for key in sorted(held - wanted):
        now: float = yield Now()
        yield from registrations.disconnect(key, wait_ms=max(0.0, deadline - now))
    for key in registrations.registrar.left.keys() - set(ours):  # another node continues them
        del registrations.registrar.left[key]
    refused: dict[PartitionKey, TubeError] = {}
    silent: dict[int, TubeError] = {}
    for key in sorted(wanted - held, key=lambda key: (key.broker_id in doubtful, key)):
        if key.broker_id in silent:
            refused[key] = silent[key.broker_id]
            continue
        try:
            yield from registrations.connect(view, key, offsets.get(key, BootstrapOffset.STORED), timeout_ms=0)
        except TubeError as error:
            if not error.retriable and not isinstance(error, NotAvailable):
                raise
            refused[key] = error
            if isinstance(error, TransportError):
                silent[key.broker_id] = error
    return refused
