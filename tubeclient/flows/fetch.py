"""Fetching, as a client of a group that balances itself.

A partition has at most one open fetch, or one pack that waits to be confirmed. Fetches are sent ahead for partitions
whose turn comes next, so that the broker reads while the application works. If such a fetch is not used, it is rolled
back when the partition is released.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from tubeclient.errors import (
    ContradictoryAnswers,
    CorruptMessage,
    DataLoss,
    NotAvailable,
    NothingToRead,
    PartitionTaken,
    ProtocolError,
    RegistrationLost,
    SpeedLimited,
    TransportError,
    TubeError,
)
from tubeclient.flows.data_look import settle_doubt
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
from tubeclient.flows.holding import Holding, OpenFetch, PackOut
from tubeclient.flows.master import GroupOrders
from tubeclient.flows.message_pack import READINGS, Delivery
from tubeclient.flows.registrar import CHANGED, Outgoing, Trouble
from tubeclient.flows.registrations import Closed, Registrations
from tubeclient.flows.throttling import minute_of_day
from tubeclient.keys import INDEX_ENTRY_BYTES, OffsetRange, PartitionKey
from tubeclient.wire.messages import Columns, as_they_came, bad_attributes, checked_columns, kept_columns, with_tags
from tubeclient.wire.methods import Method
from tubeclient.wire.proto import broker_pb2

_FIRST_EMPTY_POLL_MS, _EMPTY_POLL_MS = 20.0, 400.0
_OR_KEEP = ', or set bad_messages="keep" to get it with the reason'
_TROUBLE_MS = 300.0
_CLOSED_MS = 2_000.0
_LONGEST_REST_MS = 600_000.0
"""Twice what Apache's rules for groups can ask for."""
_LONG_SILENCE_MS = 60_000.0
"""Shorter than any retention of a broker."""


@dataclass(frozen=True, slots=True)
class Expired:
    """Emitted: these offsets of a partition expired before they were read. Reading went on after them."""

    lost: OffsetRange


@dataclass(frozen=True, slots=True)
class KeptBad:
    """Emitted: a pack of this partition, from index offset `start` on, is about to be delivered with bad messages."""

    partition: PartitionKey
    start: int
    messages: int
    """How many are bad."""
    first_id: int
    first_reason: str


class Fetching:
    """Fetches from the partitions of `registrations`."""

    def __init__(self, registrations: Registrations) -> None:
        self.orders = GroupOrders()
        """The master's orders; replaced as a whole."""
        self._registrations = registrations
        self._registrar = registrations.registrar
        self._holdings = registrations.holdings
        self._plan, self._rng = self._registrar.plan, self._registrar.rng
        self._deliveries = itertools.count(1)
        self._waiting = 0
        self._lost: list[tuple[Holding, OffsetRange]] = []
        """Losses that were not reported yet."""

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """As long as somebody waits for a pack, one more fetch may be open."""
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    def next_pack(self) -> Flow[tuple[Delivery | None, bool]]:
        """Send fetches and take the first answer. Returns the pack, if it was one, and if there was an answer."""
        yield from self._tell_losses()
        now: float = yield Now()
        self._give_up_overdue(now)
        yield from self.send_fetches(now)
        answered = yield from self._answered()
        if answered is None:
            return None, False
        return (yield from self._take_answer(answered)), True

    def _give_up_overdue(self, now_ms: float) -> None:
        """Give up packs that were not confirmed in time. Their partitions are read again from there."""
        for holding in list(self._holdings.delivered):
            if holding.out is None or holding.out.overdue_ms > now_ms:
                break
            holding.pack_given_up()

    def _answered(self) -> Flow[Holding | None]:
        """The first partition whose fetch was answered, or ran out of time."""
        for holding in self._holdings.fetching:
            if holding.answer is not None and (yield Done(holding.answer)):
                return holding
        return None

    def send_fetches(self, now_ms: float, more: int = 0) -> Flow[None]:
        """Send as many fetches as may be open at once, and so many `more`."""
        while (fetch := self.next_fetch(now_ms, more)) is not None:
            yield from self.send_fetch(fetch)

    def next_fetch(self, now_ms: float, more: int = 0, committing: Holding | None = None) -> Outgoing | None:
        """The fetch of the partition whose turn it is; it must be sent in this step. None if enough fetches are open,
        or if no partition is free. `committing` is as for `Holdings.next_idle`.
        """
        if len(self._holdings.fetching) >= self._plan.prefetch + self._waiting + more:
            return None
        holding = self._holdings.next_idle(now_ms, committing)
        if holding is None:
            return None
        request = self._registrar.reader(holding.key).fetch(
            holding.key, commit=holding.commit_next, unlimited=self.orders.group_rules.data_limits != ()
        )
        return Outgoing(holding, Method.GET_MESSAGES, request, broker_pb2.GetMessageColumnsB2C, now_ms)

    def send_fetch(self, outgoing: Outgoing, *before: Outgoing) -> Flow[list[Ticket]]:
        """Send a fetch, and requests `before` it in the same write. Returns the tickets of those requests.

        If the broker cannot be reached, the fetch is forgotten; that raises only if there were requests before it.
        """
        holding, fetch = outgoing.holding, OpenFetch(sent_ms=outgoing.sent_ms)
        try:
            holding.fetches(fetch)
            *tickets, fetch.ticket = yield from self._registrar.send(*before, outgoing)
            return tickets
        except TubeError as error:
            self._plan.counts.failed(holding.key.topic, error)
            yield from self._registrar.line_down(holding.line, error)
            if before:
                raise
            return []
        except BaseException:  # the caller was interrupted
            self._registrar.note_interrupted(holding)
            holding.fetch_given_up(fetch)
            raise

    def _take_answer(self, holding: Holding) -> Flow[Delivery | None]:
        """Handle the answer to a fetch. None if it is no pack to hand out."""
        fetch = holding.fetch
        assert fetch is not None
        assert fetch.ticket is not None
        fetch.taken = True
        try:
            try:
                response = yield Receive(fetch.ticket)
                if holding.fetch is not fetch:
                    return None  # the partition was moved or released meanwhile
                holding.asked = False
                checked(response, f"reading {holding.key}", partition=str(holding.key))
            except TubeError as error:
                if holding.fetch is fetch:
                    wait_ms = response.minLimitTime if isinstance(error, SpeedLimited) else 0
                    yield from self._fetch_failed(holding, error, wait_ms)
                return None
            holding.answered()
            self._plan.counts.fetched(holding.key.topic, "messages")
            expected = yield from self._expected(holding)
            if expected is not None and response.currOffset > expected:
                # Messages expired, or somebody moved the group on purpose. The pack is asked for again after a look.
                holding.has_gap(expected, response.currOffset)
                doubt = holding.doubt
                yield from self.settle_doubt(holding, messages=0, end=None)
                if holding.doubt is doubt and self._plan.reader_groups:
                    # The look failed. Nobody else will tell of this gap, so it counts as a loss.
                    self._note_lost(holding, OffsetRange(holding.key, expected, response.currOffset))
                    holding.doubt_settled()
                yield from self._tell_losses()
                return None
            return (yield from self._deliver(holding, response, fetch.sent_ms))
        finally:  # even if the caller was interrupted
            fetch.taken = False

    def _expected(self, holding: Holding) -> Flow[int | None]:
        """Where a pack begins at the latest if nothing expired. None if that is not known.

        After an empty answer the group may stand further on than we know: it passed over entries of other partitions.
        But if there was no fetch for long after that, messages may have expired.
        """
        if holding.expected is not None:
            return holding.expected
        now: float = yield Now()
        return holding.confirmed if 0 < holding.empty_ms < now - _LONG_SILENCE_MS else None

    def settle_doubt(self, holding: Holding, *, messages: int, end: int | None) -> Flow[None]:
        """So many messages came up to `end`. Find and note what expired before it was read."""
        yield from settle_doubt(
            holding, self._plan, self._rng, partial(self._note_lost, holding), messages=messages, end=end
        )

    def _note_lost(self, holding: Holding, lost: OffsetRange) -> None:
        holding.lost_to = lost.end
        self._plan.counts.lost(holding.key.topic, lost.max_messages)
        self._lost.append((holding, lost))

    def _tell_losses(self) -> Flow[None]:
        while self._lost:
            holding, lost = self._lost[0]
            if self._plan.fail_on_data_loss:
                error = DataLoss(
                    f"up to {lost.max_messages} messages of {lost} expired at broker {holding.line.info} before they "
                    "were read. Reading continues after them; fail_on_data_loss=False does so without an error",
                    partition=str(lost.partition),
                    wanted=lost.start,
                    found=lost.end,
                )
                del self._lost[0]  # as late as this: the caller may be interrupted
                raise error
            del self._lost[0]
            yield Emit(Expired(lost))

    def _deliver(self, holding: Holding, response: Any, sent_ms: float) -> Flow[Delivery | None]:
        start = response.currOffset
        now: float = yield Now()
        wall: float = yield WallClock()
        unseen = sent_ms - holding.read_ms > _LONG_SILENCE_MS
        lacks_all = holding.is_alone and not response.messages.messageId
        holding.reached(start, response.maxOffset, wall_ms=wall, sent_ms=sent_ms, doubtful=unseen or lacks_all)
        try:
            taken = self._checked(holding, start, response.messages)
        except CorruptMessage as error:
            holding.rest(now + _TROUBLE_MS)
            raise CorruptMessage(
                f"partition {holding.key}, in the pack from offset {start} on: {error}. It is at offset "
                f"{start + (error.number or 0) * INDEX_ENTRY_BYTES} or later, exactly there if the partition is alone "
                "in its store and nothing is filtered; connect the partition after it to go on without it"
                f"{_OR_KEEP if self._plan.bad_messages == 'fail' else ''}"
            ) from error
        except ContradictoryAnswers:
            holding.rest(now + _TROUBLE_MS)
            raise
        if taken is None:
            holding.rest(now + _TROUBLE_MS)
            return None
        messages, kept, bad = taken
        if not kept.payloads:  # Only skipped entries, or messages whose tags match only by hash.
            stands = holding.empty_at == start  # asked at once, it would answer the same for ever
            rest_until = now + _TROUBLE_MS if stands else 0.0
            holding.found_nothing(now, rest_until, commit_next=bool(messages.payloads), at=start)
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
        if bad:
            first = min(bad)
            yield Emit(KeptBad(holding.key, start, len(bad), kept.ids[first], bad[first]))
        number = next(self._deliveries)
        end = start + len(messages.payloads) * INDEX_ENTRY_BYTES
        resume_ms = now + pause_ms if pause_ms > 0 else 0.0
        lag = response.currDataDlt if response.HasField("currDataDlt") else -1
        counted = holding.is_alone and (holding.doubt is None or end == response.maxOffset)
        delivery = Delivery(number, holding.key, start, holding.end, lag, kept, bad, counted=counted)
        try:
            holding.delivered(PackOut(number, end, now + self._plan.confirm_timeout_ms, resume_ms))
        except BaseException:  # the caller was interrupted, and does not get it
            holding.pack_given_up()
            raise
        self._plan.counts.delivered(holding.key.topic, len(kept.ids), sum(map(len, kept.payloads)), len(bad or ()))
        return delivery

    def _checked(
        self, holding: Holding, start: int, wire: broker_pb2.MessageColumns
    ) -> tuple[Columns, Columns, Mapping[int, str] | None] | None:
        """The messages of a fetch; those of them with the wanted tags; and which of these are bad, if such are kept.

        None if the pack must be read again: it may have been changed on its way.
        """
        bad: dict[int, str] = {}
        if self._plan.bad_messages == "fail":
            messages = checked_columns(wire)
        else:
            messages, bad = kept_columns(wire)
            if not holding.damage.came_again(messages, bad):
                return None
            bad |= bad_attributes(messages)
            messages = as_they_came(messages, bad)
        doubt = holding.check.doubt(start, messages.ids)
        if doubt and holding.check.doubts < READINGS:
            return None
        if doubt:
            holding.check.doubts = 0
            raise ContradictoryAnswers(
                f"partition {holding.key}, in the pack from offset {start} on: broker {holding.line.info} gave other "
                f"messages in each of {READINGS} readings: {doubt}. Look for what changes answers "
                "between here and that broker, such as a proxy, and restart the broker if its log shows faults. The "
                "consumer reads the pack again",
                partition=str(holding.key),
            )
        kept, bad = with_tags(messages, holding.filters, bad) if holding.filters else (messages, bad)
        return messages, kept, bad if self._plan.bad_messages == "keep" else None

    @property
    def _limited(self) -> bool:
        return bool(self.orders.group_rules.data_limits or self.orders.default_rules.data_limits)

    def _fetch_failed(self, holding: Holding, error: TubeError, wait_ms: float) -> Flow[None]:
        now: float = yield Now()
        self._plan.counts.fetched(holding.key.topic, "empty" if isinstance(error, NothingToRead) else "error")
        if not isinstance(error, NothingToRead):
            self._plan.counts.failed(holding.key.topic, error)
        if isinstance(error, TransportError):
            yield from self._registrar.line_down(holding.line, error)
        elif isinstance(error, RegistrationLost):
            yield from self._registrations.rejoin(holding)
        elif isinstance(error, PartitionTaken):
            yield from self._registrations.lose(holding, error)
        elif isinstance(error, NothingToRead):
            # The broker may have skipped entries of other partitions; the next fetch commits that.
            usual = backoff_ms(
                holding.pace.empty_answers,
                self._rng.random(),
                first_ms=_FIRST_EMPTY_POLL_MS,
                limit_ms=_EMPTY_POLL_MS,
            )
            pause = holding.pace.after_nothing(self.orders.group_rules, self.orders.default_rules, usual)
            holding.found_nothing(now, now + pause, commit_next=True)
        elif isinstance(error, SpeedLimited):
            holding.lost_track(now + min(max(wait_ms, 1), _LONGEST_REST_MS))
        else:
            closed = isinstance(error, NotAvailable)
            first = _CLOSED_MS if closed else _TROUBLE_MS
            pause = backoff_ms(holding.failures, self._rng.random(), first_ms=first, limit_ms=8 * first)
            if holding.asked and isinstance(error, ProtocolError):  # then it rests up to the next heartbeat
                self._holdings.unanswered.add(holding.key)
            holding.refused(now + pause)
            yield Emit(Closed(holding.key) if closed else Trouble(holding.line.info, error))
        yield Notify(CHANGED)
