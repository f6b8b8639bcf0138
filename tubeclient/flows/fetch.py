"""Fetching, as a client of a group that balances itself.

A partition has one fetch in the air at most, or one pack out that waits to be confirmed. Fetches are sent ahead for
partitions whose turn comes next, so that the broker reads while the application works; what was sent ahead and not used
is rolled back when the partition is given back.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from tubeclient.errors import (
    CorruptMessage,
    DataLoss,
    NotAvailable,
    NothingToRead,
    PartitionTaken,
    RegistrationLost,
    SpeedLimited,
    TransportError,
    TubeError,
)
from tubeclient.flows.doubt import lost_before
from tubeclient.flows.effects import (
    Done,
    Emit,
    Flow,
    Notify,
    Now,
    Receive,
    Ticket,
    WallClock,
    backoff_ms,
    checked,
)
from tubeclient.flows.holdings import BrokerLine, Delivery, Holding, Phase
from tubeclient.flows.master import GroupOrders
from tubeclient.flows.registrar import CHANGED, Outgoing, Trouble
from tubeclient.flows.registrations import Closed, Registrations
from tubeclient.flows.throttling import minute_of_day
from tubeclient.keys import INDEX_ENTRY_BYTES, OffsetRange
from tubeclient.wire.messages import checked_columns, with_tags
from tubeclient.wire.methods import Method
from tubeclient.wire.proto import broker_pb2

__all__ = ["Expired", "Fetch", "Fetching"]

_FIRST_EMPTY_POLL_MS, _EMPTY_POLL_MS = 20.0, 400.0
_TROUBLE_MS = 300.0
_CLOSED_MS = 2_000.0
_LONG_SILENCE_MS = 60_000.0
"""Brokers keep messages for longer than that."""


@dataclass(frozen=True, slots=True)
class Expired:
    """Emitted: these offsets of a partition were gone before they were read; reading went on behind them."""

    lost: OffsetRange


class Fetch(NamedTuple):
    """A fetch about to be sent, and the state of its partition that the answer is for."""

    outgoing: Outgoing
    epoch: int
    turn: int


class Fetching:
    """Fetching from the partitions that `registrations` hold, and confirming."""

    def __init__(self, registrations: Registrations) -> None:
        self.orders = GroupOrders()
        """What the master wants; replaced as a whole."""
        self._registrations = registrations
        self._holdings = registrations.holdings
        self._plan = registrations.plan
        self._rng = registrations.rng
        self._deliveries = itertools.count(1)
        self._waiting = 0
        self._lost: list[tuple[Holding, OffsetRange]] = []
        """Not told yet."""

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """While somebody waits for a pack, one more may be asked for."""
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    def next_pack(self) -> Flow[tuple[Delivery | None, bool]]:
        """Ask for packs and take the answer that came first: a pack if it was one, and whether there was an answer."""
        yield from self._tell_losses()
        now: float = yield Now()
        self._give_up_overdue(now)
        yield from self.send_fetches(now)
        answered = yield from self._answered()
        if answered is None:
            return None, False
        ticket = answered.ticket
        try:
            delivery = yield from self._take_answer(answered)
        finally:  # even where the caller was interrupted
            if answered.ticket is ticket:
                answered.awaited = False
        return delivery, True

    def _give_up_overdue(self, now_ms: float) -> None:
        """A pack that nobody confirms does not block its partition for ever: it will be read again."""
        overdue = list(itertools.takewhile(lambda holding: holding.overdue_ms <= now_ms, self._holdings.delivered))
        for holding in overdue:
            holding.commit_next, holding.expected = False, holding.confirmed
            self._holdings.set_idle(holding)

    def _answered(self) -> Flow[Holding | None]:
        """The partition whose fetch was answered first, or cannot be any more."""
        for holding in self._holdings.fetching:
            usable = holding.ticket is not None and not holding.awaited and not holding.committing
            if usable and (yield Done(holding.ticket)):  # type: ignore[arg-type]
                return holding
        return None

    def send_fetches(self, now_ms: float, more: int = 0) -> Flow[None]:
        """Ask for as many packs as may be on their way, and so many `more`."""
        while (fetch := self.next_fetch(now_ms, more)) is not None:
            yield from self.send_fetch(fetch)

    def next_fetch(self, now_ms: float, more: int = 0, line: BrokerLine | None = None) -> Fetch | None:
        """The fetch of the partition whose turn it is, to be sent in this very step; None where enough packs are on
        their way, no partition is free, or it is the turn of one that is not on `line`.
        """
        if len(self._holdings.fetching) >= self._plan.prefetch + self._waiting + more:
            return None
        holding = self._holdings.next_idle(now_ms, line)
        if holding is None:
            return None
        holding.phase = Phase.FETCHING
        holding.noted = True
        self._holdings.fetching[holding] = None
        request = self._registrations.reader(holding.key).fetch(
            holding.key, commit=holding.commit_next, unlimited=self.orders.group_rules.data_limits != ()
        )
        outgoing = Outgoing(holding, Method.GET_MESSAGES, request, broker_pb2.GetMessageColumnsB2C)
        return Fetch(outgoing, holding.epoch, holding.turn)

    def send_fetch(self, fetch: Fetch, *before: Outgoing) -> Flow[list[Ticket]]:
        """Send a fetch, together with what is to leave `before` it; returns the tickets of that.

        Where the broker cannot be reached the fetch is forgotten, and that raises only if something was before it.
        """
        holding = fetch.outgoing.holding
        try:
            *tickets, ticket = yield from self._registrations.send(*before, fetch.outgoing)
        except TubeError as error:
            yield from self._registrations.line_down(holding.line, error)
            if before:
                raise
            return []
        except BaseException:  # the caller was interrupted
            if holding.turn == fetch.turn and holding.phase is Phase.FETCHING:
                self._holdings.set_idle(holding)
            raise
        if (holding.epoch, holding.turn, holding.phase) == (fetch.epoch, fetch.turn, Phase.FETCHING):
            holding.ticket = ticket
        return tickets

    def _take_answer(self, holding: Holding) -> Flow[Delivery | None]:
        """Deal with the answer to a fetch; None where it is no pack to hand out."""
        ticket = holding.ticket
        assert ticket is not None
        holding.awaited = True
        try:
            response = yield Receive(ticket)
            if holding.ticket is not ticket:
                return None  # the partition was moved or given back meanwhile
            checked(response, f"reading {holding.key}", partition=str(holding.key))
        except TubeError as error:
            if holding.ticket is ticket:
                wait_ms = response.minLimitTime if isinstance(error, SpeedLimited) else 0
                yield from self._fetch_failed(holding, error, wait_ms)
            return None
        holding.failures = 0
        holding.commit_next = False
        expected = yield from self._expected(holding)
        if expected is not None and response.currOffset > expected:
            yield from self._explain_gap(holding, expected, response.currOffset)
            return None
        return (yield from self._deliver(holding, response))

    def _expected(self, holding: Holding) -> Flow[int | None]:
        """Where a pack must begin at the latest if nothing expired; None where that cannot be, or need not be, known.

        After an empty answer the group may stand further on than we know. What it passed over then was of others; but
        where nobody asked for long after that, messages may have expired since.
        """
        if holding.expected is not None:
            return holding.expected
        now: float = yield Now()
        return holding.confirmed if 0 < holding.empty_ms < now - _LONG_SILENCE_MS else None

    def _explain_gap(self, holding: Holding, expected: int, start: int) -> Flow[None]:
        """A pack begins behind where the group stood: messages expired, or somebody moved the group on purpose.

        Registering at the old position shows which: it is still there, or not.
        """
        try:
            found = yield from self._registrations.seek(holding, expected)
            if found <= expected:
                yield from self._registrations.seek(holding, start)
                return
        except TransportError as error:
            yield from self._registrations.line_down(holding.line, error)
            return
        except TubeError as error:
            yield from self._registrations.lose(holding, error)
            return
        self._lost.append((holding, OffsetRange(holding.key, expected, found)))
        yield from self._tell_losses()

    def settle_doubt(self, holding: Holding, *, messages: int, end: int | None) -> Flow[None]:
        """After so many messages up to `end`: note what had expired before it was read."""
        lost = yield from lost_before(holding, self._plan, self._rng, messages=messages, end=end)
        if lost is not None:
            self._lost.append((holding, lost))

    def _tell_losses(self) -> Flow[None]:
        while self._lost:
            holding, lost = self._lost.pop(0)
            if self._plan.fail_on_data_loss:
                raise DataLoss(
                    f"up to {lost.max_messages} messages of {lost} expired at broker {holding.line.info} before they "
                    "were read. Reading goes on behind them; fail_on_data_loss=False does so without an error",
                    partition=str(lost.partition),
                    wanted=lost.start,
                    found=lost.end,
                )
            yield Emit(Expired(lost))

    def _deliver(self, holding: Holding, response: Any) -> Flow[Delivery | None]:
        start = response.currOffset
        holding.confirmed = max(holding.confirmed, start)  # the broker may have passed over entries of others
        now: float = yield Now()
        holding.end = max(response.maxOffset, holding.end)
        wall = yield WallClock()
        if holding.doubtful is None and wall - holding.updated_ms > _LONG_SILENCE_MS:
            holding.doubtful, holding.may_be_new = start, False
        holding.updated_ms = wall
        try:
            messages = checked_columns(response.messages)
            kept = with_tags(messages, holding.filters) if holding.filters else messages
        except CorruptMessage as error:
            self._holdings.set_idle(holding, now + _TROUBLE_MS)
            raise CorruptMessage(
                f"partition {holding.key}, in the pack from offset {start} on: {error}. It lies at offset "
                f"{start + (error.number or 0) * INDEX_ENTRY_BYTES} or behind that, exactly there where the partition "
                "is alone in its store and nothing is filtered; connect the partition behind it to go on without it"
            ) from error
        if not kept.payloads:  # entries of others were passed over, or what only the broker takes for ours
            holding.commit_next, holding.noted = bool(messages.payloads), False
            holding.expected, holding.empty_ms = None, now
            stands = holding.empty_at == start  # it passes over nothing: asked at once, it would say so for ever
            holding.empty_at = start
            self._holdings.set_idle(holding, now + _TROUBLE_MS if stands else 0.0)
            yield from self.settle_doubt(holding, messages=0, end=None)
            return None
        pause_ms = holding.pace.after_messages(
            self.orders.group_rules,
            self.orders.default_rules,
            now_ms=now,
            minute=minute_of_day(wall),
            message_bytes=sum(map(len, messages.payloads)) if self._limited else 0,
            lag_bytes=max(response.currDataDlt, 0),
            filtered=bool(holding.filters),
            near_end=response.requireSlow,
        )
        self._holdings.fetching.pop(holding, None)
        holding.ticket, holding.awaited = None, False
        holding.phase = Phase.DELIVERED
        holding.fetched = start + len(messages.payloads) * INDEX_ENTRY_BYTES
        holding.delivery = next(self._deliveries)
        holding.resume_ms = now + pause_ms if pause_ms > 0 else 0.0
        holding.overdue_ms = now + self._plan.confirm_timeout_ms
        self._holdings.delivered[holding] = None
        lag = response.currDataDlt if response.HasField("currDataDlt") else -1
        return Delivery(holding.delivery, holding.key, start, holding.end, lag, kept)

    @property
    def _limited(self) -> bool:
        return bool(self.orders.group_rules.data_limits or self.orders.default_rules.data_limits)

    def _fetch_failed(self, holding: Holding, error: TubeError, wait_ms: float) -> Flow[None]:
        now: float = yield Now()
        holding.expected, holding.commit_next = None, False
        if isinstance(error, TransportError):
            yield from self._registrations.line_down(holding.line, error)
        elif isinstance(error, RegistrationLost):
            yield from self._registrations.rejoin(holding)
        elif isinstance(error, PartitionTaken):
            yield from self._registrations.lose(holding, error)
        elif isinstance(error, NothingToRead):
            # The broker may have passed over entries of others; the next fetch commits that.
            holding.commit_next, holding.noted, holding.empty_ms = True, False, now
            usual = backoff_ms(
                holding.pace.empty_answers,
                self._rng.random(),
                first_ms=_FIRST_EMPTY_POLL_MS,
                limit_ms=_EMPTY_POLL_MS,
            )
            pause = holding.pace.after_nothing(self.orders.group_rules, self.orders.default_rules, usual)
            self._holdings.set_idle(holding, now + pause)
        elif isinstance(error, SpeedLimited):
            self._holdings.set_idle(holding, now + max(wait_ms, 1))
        else:
            closed = isinstance(error, NotAvailable)
            first = _CLOSED_MS if closed else _TROUBLE_MS
            pause = backoff_ms(holding.failures, self._rng.random(), first_ms=first, limit_ms=8 * first)
            holding.failures += 1
            self._holdings.set_idle(holding, now + pause)
            yield Emit(Closed(holding.key) if closed else Trouble(holding.line.info, error))
        yield Notify(CHANGED)
