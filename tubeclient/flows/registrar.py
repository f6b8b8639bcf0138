"""Takes, keeps and releases the partitions of a consumer's group at their brokers.

A registration is a seek too. It moves the group to an offset, or tells where the group stands, and the broker drops
what it had noted of earlier fetches. So no request from before a registration may reach the broker after it. A late
fetch would be noted on top of the pack that is out, and the commit of that pack would cover messages that were never
delivered. But a request may come long after its connection broke, its time ran out, or its caller was interrupted.

So whatever is not sure makes a partition void. A thread per broker keeps the leases, and registers void partitions
anew. If a request of such a partition is unanswered, it first gives the partition back and takes another client id:
the broker refuses what comes late under the former one.

All threads of a consumer share one `Registrar`; its methods are flows, run one step at a time.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from google.protobuf.message import Message

from tubeclient.errors import (
    ClientClosed,
    ConfigurationError,
    DataLoss,
    NotAvailable,
    PartitionOccupied,
    PartitionTaken,
    PartitionUnavailable,
    ProtocolError,
    TransportError,
    TubeError,
    status_error,
)
from tubeclient.flows.effects import (
    ConnectionTo,
    Emit,
    Flow,
    Notify,
    Now,
    Send,
    SendAll,
    Sleep,
    Ticket,
    WallClock,
    backoff_ms,
    call,
    checked,
)
from tubeclient.flows.holding import BrokerLine, Holding, Holdings, Phase, Standing
from tubeclient.flows.patience import given_ms
from tubeclient.flows.read_plan import BootstrapOffset, ReadPlan, StartFrom
from tubeclient.flows.reader import AT_MAX, AT_MIN_IF_NEW, FREE, LEASE_BEAT_MS, TAKEN, Reader
from tubeclient.keys import INDEX_ENTRY_BYTES, MAX_OFFSET, PartitionKey, is_int32
from tubeclient.metadata import ClusterView
from tubeclient.wire.methods import Method
from tubeclient.wire.proto import broker_pb2
from tubeclient.wire.strings import parse_subscription

_log = logging.getLogger(__name__)

CHANGED: Final = "partitions changed"
"""The signal on which calls wait for partitions. It is sent when one may have become usable, or free."""

WAIT_SLICE_MS: Final = 250.0
"""A wait looks again at least this often."""

_RELEASE_LIMIT_MS = 15_000.0
_STATUS_OF_START: dict[StartFrom, int] = {"earliest": 0, "latest": 1, "always_latest": 2}
UNKNOWN: Final = Standing(-1, noted=False)
_HELD_PHASES = (Phase.IDLE, Phase.FETCHING, Phase.DELIVERED, Phase.COMMITTING)

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
        self.plan = plan
        self.rng = rng
        self.holdings = Holdings()
        self.closed = False
        self.failure: TubeError | None = None
        """The error that ended this consumer for good."""
        self.interrupted = False
        """A call was interrupted, and nobody was told yet that partitions are void."""
        self.left: dict[PartitionKey, Standing] = {}
        """Where partitions stood that were released without the broker's answer."""
        self._reader = Reader(plan.group, plan.client_id, plan.authority)
        self._lives: dict[PartitionKey, int] = {}
        self._open: set[tuple[PartitionKey, Reader]] = set()
        """Requests that were not answered, and may come late."""
        self._perhaps_registered: set[PartitionKey] = set()
        """Partitions whose last registration was not answered."""
        self._seen: set[PartitionKey] = set()
        """Partitions that this consumer had before."""

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
                    self.left[holding.key] = holding.last_standing
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
        given_ms(timeout_ms)
        self._check(view, key, offset)
        now: float = yield Now()
        deadline = now + timeout_ms
        line = self.holdings.line(view.broker_of(key))
        yield Emit(line)
        holding = yield from self._settled(key, max(deadline, now + _RELEASE_LIMIT_MS))
        if holding is None:
            filters = self.plan.filters.get(key.topic, frozenset())
            holding = Holding(key, line, filters, view.stores()[key.store], self.holdings)
            holding.standing = self.left.get(key)
            self.holdings.by_key[key] = holding
        try:
            start = yield from self._register(holding, offset, deadline)
        except PartitionUnavailable:  # released meanwhile, or void
            raise
        except TubeError as error:
            if isinstance(error, TransportError):
                holding.void()
                yield from self.line_down(line, error)
            if isinstance(error, PartitionOccupied):
                holding.standing = UNKNOWN  # its new reader continued from the broker's position
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
            raise self._released(key)
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
        held = set(self.holdings.assigned())
        deadline = (yield Now()) + release_wait_ms
        for key in sorted(held - wanted):
            now: float = yield Now()
            yield from self.disconnect(key, wait_ms=max(0.0, deadline - now))
        for key in self.left.keys() - set(ours):  # another node continues them
            del self.left[key]
        refused: dict[PartitionKey, TubeError] = {}
        silent: dict[int, TubeError] = {}
        for key in sorted(wanted - held):
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

    def lapsed(self, holding: Holding) -> Flow[None]:
        """The broker does not know that the partition is ours.

        If it surely was not restarted since it said so, the lease ended. Then what it had noted is rolled back, at the
        latest by the next registration, and the group stands where somebody confirmed.
        """
        if (yield from self._on_same_run(holding)):
            holding.noted = False
        holding.void()
        yield Notify(CHANGED)
        yield Notify(holding.line.signal)

    def lose(self, holding: Holding, error: TubeError) -> Flow[None]:
        """Another client has the partition now, or it is unavailable."""
        if self.holdings.has(holding):
            if not isinstance(error, PartitionOccupied | PartitionTaken):
                self.left[holding.key] = holding.last_standing
            self.holdings.drop(holding)
            _log.warning("partition %s is lost: %s", holding.key, error)
            yield Notify(CHANGED)
            yield Emit(Lost(holding.key, error))

    def release(self, holding: Holding) -> Flow[None]:
        """Drop a partition and tell the broker, best effort. Without that, it is free when the lease ends."""
        key, reader = holding.key, self.reader(holding.key)
        # While it is being taken up again, the broker may have another position than it is to have.
        is_back = holding.standing is None or holding.confirmed == holding.standing.confirmed
        is_sure = is_back and holding.phase is not Phase.REGISTERING and key not in self._perhaps_registered
        self.left[key] = holding.last_standing
        self.holdings.drop(holding)
        if not holding.line.up:
            return
        try:
            code = yield from self._unregister(holding, reader)
            if is_sure and (code in (200, TAKEN) or (code == FREE and (yield from self._on_same_run(holding)))):
                self.left.pop(key, None)
        except TransportError as error:
            yield from self.line_down(holding.line, error)
        except TubeError:
            pass

    # Requests

    def reader(self, key: PartitionKey) -> Reader:
        """The reader that has the partition, or is about to have it."""
        return self._reader.in_life(self._lives.get(key, 0))

    def send(self, holding: Holding, *sends: Send) -> Flow[list[Ticket]]:
        """Send requests of the partition, together. They may come late, until `received` says otherwise."""
        self._open.add((holding.key, self.reader(holding.key)))
        tickets: list[Ticket] = yield SendAll(sends)
        return tickets

    def received(self, holding: Holding) -> None:
        """The open request of the partition's present version was answered."""
        self._open.discard((holding.key, self.reader(holding.key)))

    def _ask(self, holding: Holding, reader: Reader, request: Message) -> Flow[Any]:
        self._open.add((holding.key, reader))
        answer = yield from call(holding.line.info.address, Method.PARTITION_REGISTER, request)
        self._open.discard((holding.key, reader))
        return answer

    def _unregister(self, holding: Holding, reader: Reader) -> Flow[int]:
        """Give the partition back. Returns the broker's code. What may come late is refused from then on."""
        key = holding.key
        late = (key, reader) in self._open
        answer = yield from self._ask(holding, reader, reader.unregister(key))
        if answer.errCode not in (200, FREE, TAKEN):  # Apache's 200 has the offset -1 here
            if late:
                self._open.add((key, reader))
            self._checked(holding, answer)
        elif late and self.reader(key) == reader:
            self._lives[key] = self._lives.get(key, 0) + 1
        return int(answer.errCode)

    def _on_same_run(self, holding: Holding) -> Flow[bool]:
        """Whether the broker surely was not restarted since it said that the partition is ours."""
        connection = yield ConnectionTo(holding.line.info.address)
        return connection is not None and connection == holding.connection

    # Registering

    def _register(self, holding: Holding, offset: int, deadline: float) -> Flow[int]:
        """Register at `offset`, with retries until `deadline`; returns the group's new position.

        "Stored" is the last position known to this consumer. The broker knows it, with two exceptions. After a crash it
        has an older one. After a clean stop it has counted what it had noted for us as confirmed
        (DefaultOffsetManager.close), delivered or not. After a lost tail the broker has other messages there, which
        must not be skipped.

        Raises DataLoss, after restoring the group's position, for an offset that the broker does not hold (if the plan
        says so), or the error of the last attempt.
        """
        holding.void()
        careful = offset >= 0 and self.plan.fail_on_data_loss
        former = 0
        if careful:  # a broker silently goes to the nearest offset, so we may have to go back
            former = yield from self._seek(holding, BootstrapOffset.STORED, deadline)
        start = yield from self._seek(holding, offset, deadline, moves=offset != BootstrapOffset.STORED)
        confirmed, noted = holding.standing or UNKNOWN
        moved_alone = start != confirmed and (noted or start < confirmed)
        if offset == BootstrapOffset.STORED and moved_alone and 0 <= confirmed <= holding.end:
            start = yield from self._seek(holding, confirmed, deadline)
            if start > confirmed:
                holding.expected = confirmed  # that has expired; the next pack shows it
        holding.standing, holding.jumps = None, False
        if careful and start != offset - offset % INDEX_ENTRY_BYTES:
            if noted and confirmed >= 0:
                former = min(former, confirmed)  # what was noted may have been counted as confirmed
            yield from self._seek(holding, former, deadline, moves=True)
            holding.standing = None
            holding.rest(expected=former)
            raise DataLoss(
                f"partition {holding.key} cannot be read from {offset} on: broker {holding.line.info} holds "
                f"offsets from {start if start > offset else 'its beginning'} to {holding.end}. "
                "Connect at an offset it holds, or set fail_on_data_loss=False to go to the nearest one",
                partition=str(holding.key),
                wanted=offset,
                found=start,
            )
        holding.rest(expected=holding.expected)
        return start

    def _seek(self, holding: Holding, offset: int, deadline: float, *, moves: bool = False) -> Flow[int]:
        """Register at `offset`, or at the nearest one that the broker holds. With `moves` it does not matter any more
        what lies before. Tried again until `deadline`, as long as the errors are retriable."""
        failures = 0
        version = holding.become(Phase.REGISTERING)
        while True:
            try:
                return (yield from self._seek_once(holding, version, offset, moves=moves))
            except TubeError as error:
                pause = backoff_ms(failures, self.rng.random())
                failures += 1
                if not error.retriable or (yield Now()) + pause > deadline:
                    raise
                yield Sleep(pause)
                self.check_open()

    def _seek_once(self, holding: Holding, version: int, offset: int, *, moves: bool) -> Flow[int]:
        key = holding.key
        if holding.version != version:
            raise self._released(key)
        if (key, self.reader(key)) in self._open:
            code = yield from self._unregister(holding, self.reader(key))
            if code == 200 and holding.standing is not None and key not in self._perhaps_registered:
                # It had the registration: it was not stopped meanwhile, and has rolled back what it had noted.
                holding.standing = holding.standing._replace(noted=False)
        reader, first = self.reader(key), key not in self._seen
        self._perhaps_registered.add(key)
        answer = yield from self._ask(holding, reader, self._request(reader, holding, offset, first))
        self._perhaps_registered.discard(key)
        if holding.version != version:
            if not self.holdings.has(holding) and key not in self.holdings.by_key:
                yield from self._unregister(holding, reader)
            raise self._released(key)
        start: int = self._checked(holding, answer).currOffset
        self._seen.add(key)
        if moves or not holding.registration or start < holding.confirmed:
            is_new = first and self.plan.start_from == "earliest"
            holding.fresh = offset == BootstrapOffset.EARLIEST or (offset == BootstrapOffset.STORED and is_new)
            holding.doubt, holding.lost_to = None if offset < BootstrapOffset.STORED else start, 0
        else:  # what was in doubt before is so still
            holding.doubts(start)
        holding.registration += 1
        holding.connection = yield ConnectionTo(holding.line.info.address)
        holding.read_ms = yield Now()
        holding.answered(start, answer.maxOffset, wall_ms=(yield WallClock()))
        holding.expected, holding.noted, holding.failures = start, False, 0
        holding.line.up = True
        return start

    def _checked(self, holding: Holding, answer: Any) -> Any:
        try:
            return checked(
                answer,
                f"connecting partition {holding.key} for group {self.plan.group} at broker {holding.line.info}",
                address=holding.line.info.address,
                partition=str(holding.key),
            )
        except PartitionOccupied as error:
            error.args = (f"{error}. With a timeout_ms, connect waits for it",)
            raise

    def _request(self, reader: Reader, holding: Holding, offset: int, first: bool) -> broker_pb2.RegisterRequestC2B:
        status, current = AT_MIN_IF_NEW, offset if offset >= 0 else None
        if offset == BootstrapOffset.LATEST:
            status = AT_MAX
        elif offset == BootstrapOffset.EARLIEST:
            current = 0
        elif offset < 0 and first:
            status = _STATUS_OF_START[self.plan.start_from]
        return reader.register(holding.key, current, status=status, filters=holding.filters)

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

    @staticmethod
    def _released(key: PartitionKey) -> PartitionUnavailable:
        return PartitionUnavailable(f"partition {key} was released during the connect", partition=str(key))

    def _settled(self, key: PartitionKey, deadline: float) -> Flow[Holding | None]:
        """Wait until no thread is taking or releasing the partition. Returns its holding, None if there is none."""
        while (holding := self.holdings.by_key.get(key)) is not None:
            if not holding.leaving and holding.phase is not Phase.REGISTERING:
                return holding
            if (yield Now()) >= deadline:
                raise PartitionUnavailable(f"partition {key} is being connected or released", partition=str(key))
            yield Sleep(WAIT_SLICE_MS, CHANGED)
        return None

    # Keeping

    def keep_leases(self, line: BrokerLine) -> Flow[None]:
        """Every few seconds one heartbeat names all partitions on this broker; the answer says which are lost. Register
        void ones anew. Emits `Lost` for those that another client got. Ends when the consumer is closed.

        While the broker does not answer, it gets no other requests: this retries with growing waits, and then lets the
        others continue.
        """
        attempt = 0
        while not self.closed:
            well = line.up and not self._void(line)
            yield Sleep(LEASE_BEAT_MS if well else backoff_ms(attempt, self.rng.random()), line.signal)
            try:
                yield from self._beat(line)
                for holding in self._void(line):
                    yield from self._rejoin(holding)
            except ClientClosed:
                return
            except TubeError as error:
                yield from self.line_down(line, error)
                attempt += 1
                continue
            attempt = attempt + 1 if self._void(line) else 0
            if not line.up:
                line.up = True
                yield Notify(CHANGED)

    def _void(self, line: BrokerLine) -> list[Holding]:
        return [holding for holding in self.holdings.of_line(line, Phase.VOID) if not holding.leaving]

    def _rejoin(self, holding: Holding) -> Flow[None]:
        """Register a void partition again. Emits `Lost` if that fails for good; else it stays void."""
        if holding.phase is not Phase.VOID or self.closed:
            return
        try:
            offset = BootstrapOffset.LATEST if holding.jumps else BootstrapOffset.STORED
            yield from self._register(holding, offset, 0.0)
        except (TransportError, ClientClosed):
            holding.void()
            raise
        except PartitionUnavailable:
            return  # moved, or released meanwhile
        except TubeError as error:
            if error.retriable and not isinstance(error, PartitionOccupied):
                _log.info("could not take partition %s up again; trying again: %s", holding.key, error)
                holding.void()
            else:
                yield from self.lose(holding, error)
        yield Notify(CHANGED)

    def _beat(self, line: BrokerLine) -> Flow[None]:
        """Send a heartbeat for each client id, and take the partitions that are no longer ours as lapsed or lost."""
        held = {holding.key: (holding, holding.registration) for holding in self.holdings.of_line(line, *_HELD_PHASES)}
        by_reader: dict[Reader, list[PartitionKey]] = {}
        for key in held:
            by_reader.setdefault(self.reader(key), []).append(key)
        connection = yield ConnectionTo(line.info.address)
        context = f"keeping the partitions of group {self.plan.group} at broker {line.info}"
        codes: dict[PartitionKey, int] = {}
        for reader, keys in by_reader.items():
            request = reader.beat(line.info, keys, filtered=any(self.plan.filters.values()))
            answer = yield from call(line.info.address, Method.PARTITION_HEARTBEAT, request)
            checked(answer, context, address=line.info.address)
            for text in answer.failureInfo:
                code, _, subscription = text.partition(":")
                if not is_int32(code):
                    raise ProtocolError(f"{text!r} does not describe a partition's state")
                codes[parse_subscription(subscription)[1]] = int(code)
        for key, (holding, registration) in held.items():
            if holding.registration != registration or holding.phase not in _HELD_PHASES:
                continue  # the answer is not about the present registration
            if key not in codes:
                holding.connection = connection
            elif codes[key] == TAKEN:
                error = status_error(TAKEN, "another client has it", context=f"holding {key}")
                yield from self.lose(holding, error)
            else:
                yield from self.lapsed(holding)
