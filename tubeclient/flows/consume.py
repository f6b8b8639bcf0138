"""Fetching and confirming, as a client of a group that balances itself.

One `Consumption` is shared by all threads of a consumer; its methods are flows, run one step at a time.

What the broker does with a fetch (auto mode): it notes how far it read, and the next commit adds that to the group's
position. A fetch that is repeated without a commit gives the same pack again, so a lost answer costs nothing. After a
lost answer to a commit it is not known if the commit was done; registering the partition anew shows that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tubeclient.arguments import checked_kind
from tubeclient.errors import (
    ClientClosed,
    PartitionTaken,
    ProtocolError,
    RegistrationLost,
    StalePack,
    TransportError,
    TubeError,
)
from tubeclient.flows.effects import Done, Emit, Flow, Notify, Now, Receive, Sleep, Ticket, WallClock, checked
from tubeclient.flows.fetch import Fetching
from tubeclient.flows.holding import Holding, Lease, Phase
from tubeclient.flows.message_pack import Delivery
from tubeclient.flows.patience import given_ms
from tubeclient.flows.registrar import CHANGED, WAIT_SLICE_MS, Outgoing
from tubeclient.flows.registrations import Registrations
from tubeclient.keys import INDEX_ENTRY_BYTES
from tubeclient.wire.methods import Method


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """Emitted: an asynchronous commit failed, or may have failed. Its pack may come again."""

    delivery: Delivery
    error: TubeError


class _Commit(NamedTuple):
    """A commit in flight."""

    delivery: Delivery
    consumed: bool
    lease: Lease
    ticket: Ticket
    failure: TransportError | None = None
    """Why it could not be sent. Then the ticket has no answer."""


class Consumption:
    """Fetches from the partitions of `registrations`, and confirms."""

    def __init__(self, registrations: Registrations) -> None:
        self.fetching = Fetching(registrations)
        self._registrations = registrations
        self._registrar = registrations.registrar
        self._holdings = registrations.holdings
        self._committing = self._holdings.committing
        self._unsettled: dict[Holding, _Commit] = {}
        """Open asynchronous commits."""

    def get(self, *, timeout_ms: float) -> Flow[Delivery | None]:
        """The next pack of any partition. None if there was none for `timeout_ms`.

        Raises DataLoss, once, if messages expired before they were read, and CorruptMessage. Settles asynchronous
        commits that were answered.
        """
        deadline = (yield Now()) + given_ms(timeout_ms)
        with self.fetching.waiting():
            while True:
                self._registrar.check_open()
                yield from self._settle()
                yield from self._registrar.wake_after_interrupts()
                delivery, found = yield from self.fetching.next_pack()
                if delivery is not None:
                    return delivery
                now: float = yield Now()
                if found:
                    continue
                if now >= deadline:
                    return None
                rest_end = self._holdings.next_rest_end_ms(now)
                yield Sleep(min(deadline, now + WAIT_SLICE_MS, rest_end or deadline) - now, CHANGED)

    def confirm(self, delivery: Delivery, *, consumed: bool) -> Flow[int]:
        """Commit a pack, or have it read again. Returns the group's position then: the pack's end, or its beginning.

        StalePack if the pack does not count any more.
        """
        now: float = yield Now()
        holding = self._holding_of(delivery)
        self._count(holding, consumed, now)
        try:
            delivery.settled = True
            holding.commits(now)
            commit = yield from self._send(holding, delivery, consumed, now)
            position = yield from self._outcome(holding, commit)
        except TubeError:
            self._committing.discard(holding)
            yield Notify(CHANGED)
            raise
        except BaseException:
            self._commit_interrupted(holding)
            raise
        finally:
            self._committing.discard(holding)
        yield Notify(CHANGED)
        return position

    def confirm_async(self, delivery: Delivery, *, consumed: bool) -> Flow[None]:
        """Send the commit of a pack. A later `get` takes the answer, and emits `Unconfirmed` if it failed. StalePack if
        the pack does not count any more.
        """
        now: float = yield Now()
        holding = self._holding_of(delivery)
        self._count(holding, consumed, now)
        try:
            delivery.settled = True
            holding.commits(now)
            self._unsettled[holding] = yield from self._send(holding, delivery, consumed, now)
        except BaseException:
            self._commit_interrupted(holding)
            raise
        finally:
            if holding not in self._unsettled:
                self._committing.discard(holding)
        yield Notify(CHANGED)

    def wait_confirmed(self, timeout_ms: float) -> Flow[bool]:
        """Wait until every asynchronous commit was answered or given up. False if that takes longer."""
        deadline = (yield Now()) + given_ms(timeout_ms)
        while True:
            yield from self._settle()
            now: float = yield Now()
            if not self._unsettled or now >= deadline:
                return not self._unsettled
            yield Sleep(min(deadline - now, WAIT_SLICE_MS), CHANGED)

    def _holding_of(self, delivery: Delivery) -> Holding:
        checked_kind(delivery, Delivery, "what is confirmed", "get() returns it, or the delivery of a message")
        holding = self._holdings.by_key.get(delivery.partition)
        if holding is None and self._registrar.closed:
            raise ClientClosed("this consumer is closed")
        if holding is None or holding.out is None or holding.out.number != delivery.number:
            raise StalePack(partition=str(delivery.partition))
        return holding

    def _count(self, holding: Holding, consumed: bool, now_ms: float) -> None:
        """Count how long the application had the pack that it now confirms."""
        if consumed and holding.out is not None:
            plan = self._registrar.plan
            delivered_ms = holding.out.overdue_ms - plan.confirm_timeout_ms
            plan.counts.processed(holding.key.topic, (now_ms - delivered_ms) / 1000)

    def _settle(self) -> Flow[None]:
        """Take the answers of asynchronous commits."""
        for holding, commit in list(self._unsettled.items()):
            answered = commit.failure is not None or (yield Done(commit.ticket))
            if not answered or self._unsettled.get(holding) is not commit:
                continue
            del self._unsettled[holding]
            try:
                yield from self._outcome(holding, commit)
            except TubeError as error:
                yield Emit(Unconfirmed(commit.delivery, error))
            except BaseException:
                self._commit_interrupted(holding)
                raise
            finally:
                self._committing.discard(holding)
            yield Notify(CHANGED)

    def _commit_interrupted(self, holding: Holding) -> None:
        """The caller was interrupted, and the commit may come late. Not if its pack is still out: then it was not sent.
        If a fetch follows it, that one's answer comes after it."""
        if holding.phase is Phase.IDLE:
            self._registrar.note_interrupted(holding)

    def _send(self, holding: Holding, delivery: Delivery, consumed: bool, now_ms: float) -> Flow[_Commit]:
        """Send a commit, and in the same write the next fetch, of any partition of that broker: the caller will come
        back for another pack. If it is a fetch of the same partition, its answer is taken after the commit's.
        """
        lease = holding.lease
        request = self._registrar.reader(holding.key).commit(holding.key, consumed=consumed)
        commit = Outgoing(holding, Method.COMMIT_OFFSET, request)
        more = min(self._registrar.plan.prefetch, 1)
        fetch = self.fetching.next_fetch(now_ms, more, holding)
        try:
            if fetch is None:
                (ticket,) = yield from self._registrar.send(commit)
            else:
                (ticket,) = yield from self.fetching.send_fetch(fetch, commit)
        except TransportError as error:
            return _Commit(delivery, consumed, lease, Ticket(None), error)
        holding.commit_sent(lease)
        yield from self.fetching.send_fetches(now_ms, more)
        return _Commit(delivery, consumed, lease, ticket)

    def _outcome(self, holding: Holding, commit: _Commit) -> Flow[int]:
        """Wait for the answer to a commit. Returns the group's position; raises StalePack or the commit's error."""
        key = holding.key
        try:
            if commit.failure is not None:
                raise commit.failure
            answer = yield Receive(commit.ticket)
            checked(answer, f"confirming a pack of partition {key}", partition=str(key))
        except TubeError as error:
            self._registrar.plan.counts.failed(key.topic, error)
            if isinstance(error, TransportError | ProtocolError | RegistrationLost):
                return (yield from self._find_out(holding, commit, error))
            if isinstance(error, PartitionTaken):
                yield from self._registrations.lose(holding, error)
                raise StalePack(partition=str(key)) from error
            raise
        if holding.is_under(commit.lease):
            holding.committed(answer.currOffset, answer.maxOffset, wall_ms=(yield WallClock()))
            start, messages = commit.delivery.start, len(commit.delivery)
            if commit.consumed and holding.is_alone and start + messages * INDEX_ENTRY_BYTES < answer.currOffset:
                holding.doubts(start)
            if commit.consumed:
                holding.at_first = False
            if commit.consumed and holding.doubt is not None:
                yield from self.fetching.settle_doubt(holding, messages=messages, end=answer.currOffset)
        position: int = answer.currOffset
        return position

    def _find_out(self, holding: Holding, commit: _Commit, error: TubeError) -> Flow[int]:
        """The answer to a commit was lost, or the registration: find out where the group stands.

        Giving the partition back and registering anew shows it, and no earlier request can come late then. If the
        broker has forgotten us, the messages of the pack may come again.
        """
        while holding.phase is Phase.REGISTERING and holding.is_under(commit.lease):  # another thread does it
            yield Sleep(WAIT_SLICE_MS, CHANGED)
        held = holding.is_under(commit.lease) and holding.phase is not Phase.GONE
        if held and not isinstance(error, RegistrationLost):
            yield from self._registrar.note_unanswered(holding)
            try:
                position = yield from self._registrations.find_out(holding)
            except (TransportError, ProtocolError) as further:
                yield from self._registrar.line_down(holding.line, further)
                raise error from None
            except TubeError as refusal:
                yield from self._registrations.lose(holding, refusal)
                raise StalePack(partition=str(holding.key)) from error
            if position > commit.delivery.start or not commit.consumed:
                return position
            raise StalePack(partition=str(holding.key)) from error
        if held:
            yield from self._registrations.rejoin(holding)
        raise StalePack(partition=str(holding.key)) from error
