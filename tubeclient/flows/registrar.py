"""Registering and unregistering one partition at its broker, for a consumer's group.

A registration is a seek too. It moves the group to an offset, or tells where the group stands, and the broker drops
what it had noted of earlier fetches. So no request from before a registration may reach the broker after it. A late
fetch would be noted on top of the pack that is out, and the commit of that pack would cover messages that were never
delivered.

Requests on one connection are served in the order sent. But they may reach the broker long after their connection
broke, or after a time-out. If a request was not answered, the partition is released and registered again under another
client id before anything else is asked. The broker refuses what comes late under the former id.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from google.protobuf.message import Message

from tubeclient.errors import ClientClosed, DataLoss, PartitionOccupied, TransportError, TubeError
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
from tubeclient.flows.holding import BrokerLine, Doubt, Holding, Holdings, Phase
from tubeclient.flows.read_plan import BootstrapOffset, ReadPlan, StartFrom
from tubeclient.flows.reader import AT_MAX, AT_MIN_IF_NEW, FREE, TAKEN, Reader
from tubeclient.keys import INDEX_ENTRY_BYTES, BrokerInfo, PartitionKey
from tubeclient.wire.methods import Method
from tubeclient.wire.proto import broker_pb2


@dataclass(frozen=True, slots=True)
class Trouble:
    """Emitted: a broker cannot be reached, or gives a wrong answer. Its partitions wait and are tried again."""

    broker: BrokerInfo
    error: TubeError


CHANGED: Final = "partitions changed"
"""The signal on which calls wait for partitions. It is sent when one may have become usable, or free."""

T = TypeVar("T")

WAIT_SLICE_MS: Final = 250.0
"""A wait looks again at least this often."""

_SENDING_SLICE_MS = 10.0
_STATUS_OF_START: dict[StartFrom, int] = {"earliest": 0, "latest": 1, "always_latest": 2}


class Outgoing(NamedTuple):
    """A fetch or a commit of a partition, ready to be sent."""

    holding: Holding
    method: Method
    request: Message
    answer: type[Message] | None = None
    sent_ms: float = 0.0
    """Of a fetch: when it is sent."""


class Standing(NamedTuple):
    """How far a partition was confirmed, and whether its broker may have noted more."""

    confirmed: int
    noted: bool


class Registrar:
    """Registers the partitions of one consumer. Its methods are flows that are run one step at a time."""

    def __init__(self, plan: ReadPlan, rng: random.Random) -> None:
        self.plan = plan
        self._reader = Reader(plan.group, plan.client_id, plan.authority)
        self._lives: dict[PartitionKey, int] = {}
        self._perhaps_registered: set[PartitionKey] = set()
        """Partitions whose last registration was not answered."""
        self.holdings = Holdings()
        self.closed = False
        self.failure: TubeError | None = None
        """The error that ended this consumer for good."""
        self.rng = rng
        self.left: dict[PartitionKey, Standing] = {}
        """Positions of partitions that were released without the broker's answer, or are being taken up again."""
        self._seen: set[PartitionKey] = set()
        self._to_wake: set[str] = set()
        """Signals that an interrupted call could not give."""

    def check_open(self) -> None:
        """Raise ClientClosed if the consumer was closed, or the error that ended it."""
        if self.closed:
            raise ClientClosed("this consumer is closed")
        if self.failure is not None:
            raise self.failure

    def reader(self, key: PartitionKey) -> Reader:
        """The reader that has the partition, or is about to have it."""
        return self._reader.in_life(self._lives.get(key, 0))

    def note_unanswered(self, holding: Holding) -> Flow[None]:
        """A request was not answered and may come late. The thread that keeps the lease registers the partition
        again."""
        self.holdings.unanswered.add(holding.key)
        yield Notify(holding.line.signal)

    def note_interrupted(self, holding: Holding) -> None:
        """A call was interrupted that has sent a request, or may have. It may come late, as without an answer."""
        self.holdings.unanswered.add(holding.key)
        self._to_wake.add(holding.line.signal)

    def wake_after_interrupts(self) -> Flow[None]:
        """Have the partitions of interrupted calls registered again now, not only at the next heartbeat."""
        while self._to_wake:
            yield Notify(self._to_wake.pop())

    def send(self, *outgoing: Outgoing) -> Flow[list[Ticket]]:
        """Send fetches and commits of one broker's partitions together, so that no registration overtakes them."""
        address = outgoing[0].holding.line.info.address
        write, partitions = object(), [one.holding for one in outgoing]
        self.holdings.writes[write] = partitions
        try:
            before = yield ConnectionTo(address)
            tickets: list[Ticket] = yield SendAll(
                tuple(Send(address, one.method, one.request, signal=CHANGED, answer=one.answer) for one in outgoing)
            )
            after = yield ConnectionTo(address)
            for one in outgoing:
                one.holding.sent_over = after if before in (None, after) else None
            return tickets
        except TubeError:
            self.holdings.unanswered.update(one.holding.key for one in outgoing)
            raise
        finally:
            del self.holdings.writes[write]

    def register(self, holding: Holding, offset: int, deadline: float) -> Flow[int]:
        """Register at `offset`, with retries until `deadline`; returns the group's new position.

        Raises DataLoss, after restoring the group's position, for an offset that the broker does not hold (if the plan
        says so), or the error of the last attempt; then the phase stays REGISTERING, and the caller must end it.
        """
        careful = offset >= 0 and self.plan.fail_on_data_loss
        former = 0
        if careful:  # a broker silently goes to the nearest offset, so we may have to go back
            former = yield from self.seek(holding, BootstrapOffset.STORED, deadline)
        start = yield from self.seek(holding, offset, deadline, moves=offset != BootstrapOffset.STORED)
        if careful and start != offset - offset % INDEX_ENTRY_BYTES:
            yield from self.seek(holding, former, deadline, moves=True)
            raise self._loss(holding, offset, start)
        return start

    def seek(self, holding: Holding, offset: int, deadline: float = 0.0, *, moves: bool = False) -> Flow[int]:
        """Register at `offset`, or at the nearest one that the broker holds; otherwise as `register`. With `moves` it
        does not matter any more what lies before."""
        with self._idle_if_interrupted(holding):
            return (yield from self._try(holding, offset, deadline, moves=moves))

    def take_up(self, holding: Holding, standing: Standing, deadline: float) -> Flow[int]:
        """Register at the group's last position known to this consumer; returns the group's position then.

        The broker knows the position, with two exceptions. After a crash it has an older one. After a clean stop it has
        counted what it had noted for us as confirmed (DefaultOffsetManager.close), delivered or not. After a lost tail
        the broker has other messages there, which must not be skipped. Raises as `register`; the standing is kept until
        this succeeds, for the next try.
        """
        # A broker that has kept the registration was not stopped meanwhile, and has rolled back what it had noted.
        had_since = holding.key not in self.left and holding.key not in self._perhaps_registered
        self.left[holding.key] = standing
        with self._idle_if_interrupted(holding):
            if (yield from self._end_life(holding, deadline)) and had_since:
                self.left[holding.key] = standing = standing._replace(noted=False)
        confirmed, noted = standing
        start = yield from self.seek(holding, BootstrapOffset.STORED, deadline)
        if start != confirmed and (noted or start < confirmed) and 0 <= confirmed <= holding.end:
            start = yield from self.seek(holding, confirmed, deadline)
            if start > confirmed:
                holding.expected = confirmed  # that has expired; the next pack shows it
        self.left.pop(holding.key, None)
        return start

    @contextmanager
    def _idle_if_interrupted(self, holding: Holding) -> Iterator[None]:
        try:
            yield
        except TubeError:
            raise
        except BaseException:  # the next fetch shows the group's position
            if holding.phase is Phase.REGISTERING:
                self.note_interrupted(holding)
                holding.lost_track()
            raise

    def forget(self, holding: Holding, *, free_it: bool) -> Flow[None]:
        """Drop a partition and tell the broker, best effort. Without that, it is free when the lease ends."""
        yield from self._note_open(holding)
        holding.ends()
        yield from self._all_sent(holding)
        known = not free_it or not holding.is_registered
        if free_it and holding.line.up:
            try:
                answer = yield from self._unregister(holding)
                lapsed = answer.errCode == FREE and (yield from self.on_same_run(holding))
                known = known or lapsed or answer.errCode in (200, TAKEN)
            except TransportError as error:
                yield from self.line_down(holding.line, error)
            except TubeError:
                pass
        if not known:
            # An existing one comes from an unfinished registration; then the current holding has the broker's position.
            self.left.setdefault(holding.key, Standing(holding.confirmed, holding.noted))
        self.holdings.drop(holding)

    def on_same_run(self, holding: Holding) -> Flow[bool]:
        """Whether the broker surely was not restarted since it said that the partition is ours.

        If such a broker has forgotten the partition, the lease ended. Then what it had noted is rolled back, at the
        latest by the next registration, and the group stands where somebody confirmed.
        """
        connection = yield ConnectionTo(holding.line.info.address)
        return connection is not None and connection == holding.lease.connection

    def line_down(self, line: BrokerLine, error: TubeError) -> Flow[None]:
        """The broker gives no answer, or a wrong one. Nothing more is asked of it until it answers a heartbeat.

        Open requests are forgotten. How far a fetch moved the group is not known then, so the next fetch repeats it.
        """
        line.up = False
        for holding in self.holdings.of_line(line):
            if holding.is_registered and holding.phase in (Phase.FETCHING, Phase.REGISTERING):
                self.holdings.unanswered.add(holding.key)
                holding.lost_track()
        yield Notify(CHANGED)
        yield Notify(line.signal)
        yield Emit(Trouble(line.info, error))  # last: the caller may be interrupted here

    def _try(self, holding: Holding, offset: int, deadline: float, *, moves: bool) -> Flow[int]:
        yield from self._end_life(holding, deadline)
        first = holding.key not in self._seen
        answer = yield from self._patiently(lambda: self._register(holding, offset, first), deadline)
        self._seen.add(holding.key)
        start: int = answer.currOffset
        doubt = None
        if offset >= 0 or offset == BootstrapOffset.STORED:
            doubt = Doubt(start, may_be_new=first and offset < 0 and self.plan.start_from == "earliest")
        now_ms: float = yield Now()
        wall_ms: float = yield WallClock()
        connection = yield ConnectionTo(holding.line.info.address)
        holding.registered(
            start,
            answer.maxOffset,
            now_ms=now_ms,
            wall_ms=wall_ms,
            connection=connection,
            doubt=doubt,
            at_first=offset == BootstrapOffset.EARLIEST,
            moved=moves,
        )
        return start

    def _register(self, holding: Holding, offset: int, first: bool) -> Flow[Any]:
        if holding.key in self.holdings.unanswered:  # after a try that was not answered
            yield from self._unregister_for_good(holding)
        request = self._request(holding, offset, first)
        return (yield from self._ask(holding, request))

    def _end_life(self, holding: Holding, deadline: float) -> Flow[bool]:
        """Make sure that no earlier request can come late. If one was not answered, release the partition and take
        another client id. True if the broker had the partition; then it has rolled back what it had noted.
        """
        yield from self._note_open(holding)
        holding.registers()
        yield from self._all_sent(holding)
        if holding.key not in self.holdings.unanswered:
            return False
        return (yield from self._patiently(lambda: self._unregister_for_good(holding), deadline))

    def _unregister_for_good(self, holding: Holding) -> Flow[bool]:
        answer = yield from self._unregister(holding)
        if answer.errCode not in (200, FREE, TAKEN):  # Apache's 200 has the offset -1 here
            self._checked(holding, answer)
        self._lives[holding.key] = self._lives.get(holding.key, 0) + 1
        self.holdings.unanswered.discard(holding.key)
        holding.asked = False
        return bool(answer.errCode == 200)

    def _unregister(self, holding: Holding) -> Flow[Any]:
        request = self.reader(holding.key).unregister(holding.key)
        try:
            return (yield from call(holding.line.info.address, Method.PARTITION_REGISTER, request))
        except BaseException:  # or interrupted
            self.holdings.unanswered.add(holding.key)
            raise

    def _ask(self, holding: Holding, request: broker_pb2.RegisterRequestC2B) -> Flow[Any]:
        try:
            answer = yield from call(holding.line.info.address, Method.PARTITION_REGISTER, request)
        except BaseException:  # or interrupted
            self.holdings.unanswered.add(holding.key)
            self._perhaps_registered.add(holding.key)
            raise
        self._perhaps_registered.discard(holding.key)
        return self._checked(holding, answer)

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

    def _patiently(self, attempt: Callable[[], Flow[T]], deadline: float) -> Flow[T]:
        """Try again until `deadline`, as long as the errors are retriable."""
        failures = 0
        while True:
            try:
                return (yield from attempt())
            except TubeError as error:
                pause = backoff_ms(failures, self.rng.random())
                failures += 1
                if not error.retriable or (yield Now()) + pause > deadline:
                    raise
                yield Sleep(pause)
                self.check_open()

    def _note_open(self, holding: Holding) -> Flow[None]:
        """Open requests that were sent over an earlier connection may come late. Note that."""
        if holding.is_asked_for:
            live = yield ConnectionTo(holding.line.info.address)
            if live is None or live != holding.sent_over:
                self.holdings.unanswered.add(holding.key)

    def _all_sent(self, holding: Holding) -> Flow[None]:
        """Wait until all requests that are being sent have been written."""
        while self.holdings.is_written(holding):
            yield Sleep(_SENDING_SLICE_MS)

    def _request(self, holding: Holding, offset: int, first: bool) -> broker_pb2.RegisterRequestC2B:
        status, current = AT_MIN_IF_NEW, offset if offset >= 0 else None
        if offset == BootstrapOffset.LATEST:
            status = AT_MAX
        elif offset == BootstrapOffset.EARLIEST:
            current = 0
        elif offset < 0 and first:
            status = _STATUS_OF_START[self.plan.start_from]
        return self.reader(holding.key).register(holding.key, current, status=status, filters=holding.filters)

    def _loss(self, holding: Holding, wanted: int, found: int) -> DataLoss:
        return DataLoss(
            f"partition {holding.key} cannot be read from {wanted} on: broker {holding.line.info} holds "
            f"offsets from {found if found > wanted else 'its beginning'} to {holding.end}. "
            "Connect at an offset it holds, or set fail_on_data_loss=False to go to the nearest one",
            partition=str(holding.key),
            wanted=wanted,
            found=found,
        )
