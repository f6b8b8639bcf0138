"""Fetching and confirming, as a client of a group that balances itself.

What the broker does with a fetch (auto mode): it notes how far it read, and the next commit adds that to the group's
position. A fetch that is repeated without a commit gives the same pack again, so a lost answer costs nothing. After a
lost answer to a commit it is not known if the commit was done; registering the partition anew shows that.

Packs are fetched ahead for partitions whose turn comes next, so that the broker reads while the application works. If
such a fetch is not used, it is rolled back when the partition is released.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping

from tubeclient.arguments import checked_kind, given_ms
from tubeclient.errors import (
    ClientClosed,
    ContradictoryAnswers,
    CorruptMessage,
    NotAvailable,
    NothingToRead,
    PartitionTaken,
    ProtocolError,
    RegistrationLost,
    SpeedLimited,
    StalePack,
    TransportError,
    TubeError,
)
from tubeclient.flows.effects import Done, Flow, Notify, Now, Receive, Send, Sleep, WallClock, backoff_ms, checked
from tubeclient.flows.holding import Holding, PackOut, Phase
from tubeclient.flows.losses import Losses
from tubeclient.flows.master import GroupOrders
from tubeclient.flows.message_pack import READINGS, Delivery
from tubeclient.flows.registrar import CHANGED, WAIT_SLICE_MS, Registrar
from tubeclient.flows.throttling import minute_of_day
from tubeclient.keys import INDEX_ENTRY_BYTES
from tubeclient.wire.messages import (
    Arrived,
    Columns,
    Fetched,
    as_they_came,
    bad_attributes,
    checked_columns,
    parse_fetched,
    unchecked_columns,
    with_tags,
)
from tubeclient.wire.methods import Method

_log = logging.getLogger(__name__)

_FIRST_EMPTY_POLL_MS, _EMPTY_POLL_MS = 20.0, 400.0
_TROUBLE_MS = 300.0
_CLOSED_MS = 2_000.0
_LONGEST_REST_MS = 600_000.0
"""Twice what Apache's rules for groups can ask for."""


class Fetcher:
    """Fetches from the partitions of a registrar, and confirms. Its methods are flows, run one step at a time."""

    def __init__(self, registrar: Registrar) -> None:
        self.orders = GroupOrders()
        """The master's orders; replaced as a whole."""
        self._registrar, self._registrations, self._holdings = registrar, registrar.registrations, registrar.holdings
        self._plan, self._rng = registrar.plan, registrar.rng
        self._deliveries = itertools.count(1)
        self._waiting = 0
        self._asked_ms = float("-inf")
        self._losses = Losses(registrar.plan, registrar.rng)

    def get(self, *, timeout_ms: float) -> Flow[Delivery | None]:
        """The next pack of any partition. None if there was none for `timeout_ms`.

        Raises DataLoss, once, if messages expired before they were read, and CorruptMessage.
        """
        deadline = (yield Now()) + given_ms(timeout_ms)
        if self._registrar.interrupted:
            self._registrar.interrupted = False
            for line in list(self._holdings.lines.values()):
                yield Notify(line.signal)
        self._waiting += 1  # as long as somebody waits for a pack, one more fetch may be open
        try:
            while True:
                self._registrar.check_open()
                self._losses.raise_or_log()
                now: float = yield Now()
                self._asked_ms = now
                self._give_up_overdue(now)
                yield from self._fetch_ahead(now, self._plan.prefetch + self._waiting)
                holding = yield from self._answered()
                if holding is not None:
                    if (delivery := (yield from self._take_answer(holding))) is not None:
                        return delivery
                    continue
                now = yield Now()
                if now >= deadline:
                    return None
                rest_end = self._holdings.next_rest_end_ms(now)
                yield Sleep(min(deadline, now + WAIT_SLICE_MS, rest_end or deadline) - now, CHANGED)
        finally:
            self._waiting -= 1

    def is_polled(self, within_ms: float) -> Flow[bool]:
        """Whether somebody waits for a pack, or asked so long ago at most."""
        now: float = yield Now()
        return self._waiting > 0 or now - self._asked_ms <= within_ms

    def confirm(self, delivery: Delivery, *, consumed: bool) -> Flow[int]:
        """Commit a pack, or have it read again. Returns the group's position then: the pack's end, or its beginning.

        StalePack if the pack does not count any more. After a TransportError it may come again.
        """
        now: float = yield Now()
        holding, out = self._out(delivery)
        key, delivery.settled = delivery.partition, True
        if consumed:
            self._plan.counts.processed(key.topic, (now - out.overdue_ms + self._plan.confirm_timeout_ms) / 1000)
            holding.is_unconfirmed = False  # should the broker confirm it by itself, that is what is wanted
        version = holding.become(Phase.COMMITTING)
        request = self._registrations.reader(key).commit(key, consumed=consumed)
        sends = [Send(holding.line.info.address, Method.COMMIT_OFFSET, request, signal=CHANGED)]
        if self._is_free_for_next(holding, now, out):
            # Behind the commit, in the same write: else one that comes late would cover what the fetch noted.
            holding.sent_ms, holding.is_unconfirmed, holding.commit_next = now, True, False
            sends.append(self._fetch(holding))
        try:
            tickets = yield self._registrations.sending(holding, *sends)
            answer = yield Receive(tickets[0])
            if holding.version != version:
                if answer.errCode != 200:
                    raise StalePack(partition=str(key))
                return int(answer.currOffset)  # the broker has it, whatever became of the partition meanwhile
            if len(tickets) == 1:
                self._registrations.received(holding)
            checked(answer, f"confirming a pack of partition {key}", partition=str(key))
        except TubeError as error:
            self._plan.counts.failed(key.topic, error)
            if holding.version == version:
                yield from self._commit_failed(holding, error)
                if isinstance(error, RegistrationLost | PartitionTaken):
                    raise StalePack(partition=str(key)) from error
            raise
        position: int = answer.currOffset
        holding.answered(position, answer.maxOffset, wall_ms=(yield WallClock()))
        holding.rest(out.resume_ms, expected=position)
        if len(tickets) > 1:
            holding.become(Phase.FETCHING)
            holding.ticket = tickets[1]
        yield Notify(CHANGED)
        if consumed:
            if holding.is_alone and delivery.start + len(delivery) * INDEX_ENTRY_BYTES < position:
                holding.suspect_loss(delivery.start)
            holding.fresh = holding.fresh and holding.suspected_loss is not None
            yield from self._losses.settle(holding, messages=len(delivery), end=position)
        yield from self._fetch_ahead((yield Now()), self._plan.prefetch)
        return position

    def _is_free_for_next(self, holding: Holding, now_ms: float, out: PackOut) -> bool:
        """Whether its next pack may be asked for along with the commit: if no other partition waits for its turn."""
        is_room = len(self._holdings.in_phase[Phase.FETCHING]) < self._plan.prefetch
        is_free = holding.line.up and not holding.leaving and out.resume_ms <= now_ms
        return is_room and is_free and self._holdings.next_idle(now_ms) is None

    def _out(self, delivery: Delivery) -> tuple[Holding, PackOut]:
        checked_kind(delivery, Delivery, "what is confirmed", "get() returns it, or the delivery of a message")
        holding = self._holdings.by_key.get(delivery.partition)
        if holding is None and self._registrar.closed:
            raise ClientClosed("this consumer is closed")
        if holding is None or holding.out is None or holding.out.number != delivery.number:
            raise StalePack(partition=str(delivery.partition))
        return holding, holding.out

    def _commit_failed(self, holding: Holding, error: TubeError) -> Flow[None]:
        if not isinstance(error, TransportError):
            holding.is_unconfirmed = True  # a broker that was restarted has confirmed it; the caller is told otherwise
        if not (yield from self._registrar.broken(holding, error)):
            holding.void()
            yield Notify(holding.line.signal)
            yield Notify(CHANGED)

    def _give_up_overdue(self, now_ms: float) -> None:
        """Give up packs that were not confirmed in time. Their partitions are read again from there."""
        for holding in list(self._holdings.in_phase[Phase.DELIVERED]):
            if holding.out is None or holding.out.overdue_ms > now_ms:
                break
            holding.rest(expected=holding.confirmed)

    def _answered(self) -> Flow[Holding | None]:
        """The first partition whose fetch was answered, or ran out of time."""
        for holding in self._holdings.in_phase[Phase.FETCHING]:
            if holding.ticket is not None and not holding.leaving and (yield Done(holding.ticket)):
                return holding
        return None

    def _fetch_ahead(self, now_ms: float, limit: int) -> Flow[None]:
        """Send fetches until so many are open, or no partition is free."""
        while len(self._holdings.in_phase[Phase.FETCHING]) < limit:
            holding = self._holdings.next_idle(now_ms)
            if holding is None:
                return
            version = holding.become(Phase.FETCHING)
            holding.is_unconfirmed, holding.sent_ms = True, now_ms
            try:
                (ticket,) = yield self._registrations.sending(holding, self._fetch(holding))
                if holding.version == version:
                    holding.ticket = ticket
            except TubeError as error:
                self._plan.counts.failed(holding.key.topic, error)
                yield from self._registrar.line_down(holding.line, error)

    def _fetch(self, holding: Holding) -> Send:
        request = self._registrations.reader(holding.key).fetch(
            holding.key, commit=holding.commit_next, unlimited=self.orders.group_rules.data_limits != ()
        )
        return Send(holding.line.info.address, Method.GET_MESSAGES, request, signal=CHANGED, parse=parse_fetched)

    def _take_answer(self, holding: Holding) -> Flow[Delivery | None]:
        """Handle the answer to a fetch. None if it is no pack to hand out."""
        version, ticket = holding.version, holding.ticket
        assert ticket is not None
        holding.ticket = None
        wait_ms = 0
        try:
            response = yield Receive(ticket)
            if holding.version != version or holding.leaving:
                return None  # the partition was moved or released meanwhile
            self._registrations.received(holding)
            wait_ms = response.minLimitTime
            checked(response, f"reading {holding.key}", partition=str(holding.key))
        except TubeError as error:
            if holding.version == version:
                yield from self._fetch_failed(holding, error, wait_ms)
            return None
        holding.failures, holding.commit_next = 0, False
        self._plan.counts.fetched(holding.key.topic, "messages")
        start, expected = response.currOffset, self._losses.expected(holding)
        if expected is not None and start > expected:
            yield from self._losses.check_gap(holding, expected, start)
            return None
        return (yield from self._deliver(holding, response))

    def _deliver(self, holding: Holding, response: Fetched) -> Flow[Delivery | None]:
        start = response.currOffset
        now: float = yield Now()
        wall: float = yield WallClock()
        moved = start > holding.confirmed
        holding.answered(max(holding.confirmed, start), max(holding.end, response.maxOffset), wall_ms=wall)
        if holding.is_alone and not response.messages.ids:
            holding.suspect_loss(start)
        holding.rest(now + _TROUBLE_MS, expected=start)  # it comes again, unless all is well
        try:
            taken = self._checked(holding, start, response.messages)
        except CorruptMessage as error:
            keep = ', or set bad_messages="keep" to get it with the reason'
            raise CorruptMessage(
                f"partition {holding.key}, in the pack from offset {start} on: {error}. The message is at offset "
                f"{start + (error.number or 0) * INDEX_ENTRY_BYTES} or later (exactly there if the partition has its "
                "store to itself and nothing is filtered); to skip it, connect the partition past "
                f"it{keep if self._plan.bad_messages == 'fail' else ''}"
            ) from error
        if taken is None:
            return None
        messages, selected, bad = taken
        if not selected.payloads:  # Only skipped entries, or messages whose tags match only by hash.
            # Asked at once from where it stood before, it would answer the same for ever.
            holding.rest(0.0 if moved else now + _TROUBLE_MS, commit_next=bool(messages.payloads))
            holding.is_unconfirmed = False
            yield from self._losses.settle(holding)
            return None
        pause_ms = holding.pace.after_messages(
            self.orders.group_rules,
            self.orders.default_rules,
            now_ms=now,
            minute=minute_of_day(wall),
            message_bytes=messages.payload_bytes,
            lag_bytes=max(response.currDataDlt, 0),
            filtered=bool(holding.filters),
            near_end=response.requireSlow,
        )
        if bad:
            first = min(bad)
            which = f"{len(bad)} bad messages are kept. The first has id {selected.ids[first]}: {bad[first]}"
            _log.warning("partition %s, in the pack from offset %d on: %s", holding.key, start, which)
        number = next(self._deliveries)
        end = start + len(messages.payloads) * INDEX_ENTRY_BYTES
        counted = holding.is_alone and (holding.suspected_loss is None or end == response.maxOffset)
        behind = response.currDataDlt
        delivery = Delivery(number, holding.key, start, holding.end, behind, selected, bad, counted=counted)
        holding.become(Phase.DELIVERED)
        holding.out = PackOut(number, end, now + self._plan.confirm_timeout_ms, now + pause_ms if pause_ms > 0 else 0.0)
        self._plan.counts.delivered(holding.key.topic, len(selected.ids), selected.payload_bytes, len(bad or ()))
        return delivery

    def _checked(
        self, holding: Holding, start: int, arrived: Arrived
    ) -> tuple[Columns, Columns, Mapping[int, str] | None] | None:
        """The messages of a fetch; those of them with the wanted tags; and which of these are bad, if such are kept.

        None if the pack must be read again: it may have been changed on its way.
        """
        bad: dict[int, str] = {}
        if self._plan.bad_messages == "fail":
            messages = checked_columns(arrived)
        else:
            messages, bad = unchecked_columns(arrived)
            if not holding.damage.came_again(messages, bad):
                return None
            bad |= bad_attributes(messages)
            messages = as_they_came(messages, bad)
        messages = Columns(*messages)  # the application may keep them, and not all bytes of the answer with them
        contradiction = holding.check.contradiction(start, messages.ids)
        if contradiction and holding.check.contradictions < READINGS:
            return None
        if contradiction:
            holding.check.contradictions = 0
            raise ContradictoryAnswers(
                f"partition {holding.key}, in the pack from offset {start} on: broker {holding.line.info} returned "
                f"different messages in each of {READINGS} reads: {contradiction}. Look for something that alters "
                "answers between here and that broker, such as a proxy, and restart the broker if its log shows "
                "faults. The consumer reads the pack again",
                partition=str(holding.key),
            )
        selected, bad = with_tags(messages, holding.filters, bad) if holding.filters else (messages, bad)
        return messages, selected, bad if self._plan.bad_messages == "keep" else None

    def _fetch_failed(self, holding: Holding, error: TubeError, wait_ms: float) -> Flow[None]:
        now: float = yield Now()
        empty = isinstance(error, NothingToRead)
        self._plan.counts.fetched(holding.key.topic, "empty" if empty else "error")
        if not empty:
            self._plan.counts.failed(holding.key.topic, error)
        if (yield from self._registrar.broken(holding, error)):
            return
        if empty:
            self._losses.expected(holding)
            times = holding.pace.empty_answers
            usual = backoff_ms(times, self._rng.random(), first_ms=_FIRST_EMPTY_POLL_MS, limit_ms=_EMPTY_POLL_MS)
            pause = holding.pace.after_nothing(self.orders.group_rules, self.orders.default_rules, usual)
            # The broker may have skipped entries of other partitions; the next fetch commits that.
            holding.rest(now + pause, commit_next=True)
            holding.is_unconfirmed = False
        elif isinstance(error, SpeedLimited):
            holding.rest(now + min(max(wait_ms, 1), _LONGEST_REST_MS))
        elif isinstance(error, ProtocolError):
            holding.void()  # up to the next heartbeat
        else:
            holding.failures += 1
            if holding.failures == 1:
                _log.warning("partition %s waits; trying again: %s", holding.key, error)
            first = _CLOSED_MS if isinstance(error, NotAvailable) else _TROUBLE_MS
            pause = backoff_ms(holding.failures - 1, self._rng.random(), first_ms=first, limit_ms=8 * first)
            holding.rest(now + pause)
        yield Notify(CHANGED)
