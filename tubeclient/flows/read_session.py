"""One reader at one partition, in whichever of its reader groups is free: register, fetch, commit, leave.

A request may reach its broker long after its connection broke, or after its caller gave up waiting. A late fetch or
commit moves the position, a late registration moves it elsewhere. The broker cannot tell them from new ones: it knows a
reader by client id and group alone. So a client id is not used again once a request under it was not answered. What
comes late under it is refused (411, 412), or moves a position that nobody reads from.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from google.protobuf.message import Message

from tubeclient.errors import (
    CorruptMessage,
    DeadlineExceeded,
    NotAvailable,
    NothingToRead,
    PartitionOccupied,
    PartitionTaken,
    ProtocolError,
    TubeError,
)
from tubeclient.flows.effects import Flow, Now, Receive, Send, Sleep, Ticket, backoff_ms, call, checked
from tubeclient.flows.reader import FREE, TAKEN, Authority, Reader
from tubeclient.keys import INDEX_ENTRY_BYTES, BrokerInfo, PartitionKey, StoreBounds
from tubeclient.wire.messages import Arrived, parse_fetched
from tubeclient.wire.methods import Method

_NOT_HAD = (200, FREE, TAKEN)
"""Codes that answer an unregister if the client does not have the partition afterwards."""

_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class ReaderNames:
    """Under which names brokers are asked."""

    groups: tuple[str, ...]
    """Tried in order: the first one in which a partition is free is taken."""
    new_client_id: Callable[[], str]
    """Makes a new unique client id at each call."""
    authority: Authority = field(default_factory=Authority)


T = TypeVar("T")


class ReadAgain(TubeError):
    """The same is to be read again after a pause: the answer looks like a loss, or like damage on its way."""

    retriable = True

    def __init__(self, what: str, pause_ms: float = 500) -> None:
        super().__init__(what)
        self.pause_ms = pause_ms


class RetryPolicy:
    """How long reading goes on without progress. Faults are tried again for `retry_limit_ms`. While others read the
    partition in every reader group, the wait for a turn ends after `turn_limit_ms`: live readers take as long as their
    consumers do, dead ones lose the partition when their lease ends.
    """

    def __init__(
        self, broker: BrokerInfo, rng: random.Random, retry_limit_ms: float, turn_limit_ms: float = 0.0
    ) -> None:
        self._broker = broker
        self._rng = rng
        self._retry_limit_ms = retry_limit_ms
        self._turn_limit_ms = max(turn_limit_ms, retry_limit_ms)
        self._progress_ms = self._alive_ms = 0.0
        self._attempts = 0

    def progress(self) -> Flow[None]:
        """Note that something was read, or that reading begins."""
        self._progress_ms = self._alive_ms = yield Now()
        self._attempts = 0

    def is_over(self, now_ms: float) -> bool:
        """Whether a limit is reached. In any order of faults and waits, that is so after the longer limit."""
        alive, progress = now_ms - self._alive_ms, now_ms - self._progress_ms
        return alive >= self._retry_limit_ms or progress >= self._turn_limit_ms

    def run_flow(self, work: Callable[[], Flow[T]], doing: Callable[[], str], *sessions: ReadSession) -> Flow[T]:
        """What `work` returns. After a fault it is begun again. Raises what does not pass, and a DeadlineExceeded when
        a limit is reached."""
        yield from self.progress()
        while True:
            try:
                return (yield from work())
            except TubeError as error:
                if isinstance(error, CorruptMessage):
                    raise  # a ProtocolError is retriable, but here the same bytes would come again
                if not error.retriable and not isinstance(error, NotAvailable | PartitionTaken):
                    raise
                now_ms: float = yield Now()
                if isinstance(error, PartitionOccupied | PartitionTaken):
                    self._alive_ms = now_ms  # neither the broker nor the way to it is at fault
                    for session in sessions:
                        session.was_turned_away()
                if self.is_over(now_ms):
                    raise DeadlineExceeded(
                        f"no progress for {(now_ms - self._progress_ms) / 1000:.0f} s {doing()} from broker "
                        f"{self._broker}: {error}. Check that broker and the network, raise the retry limit, or wait "
                        "until others have read the partition",
                        address=self._broker.address,
                        condition="BROKER_UNREACHABLE",
                    ) from error
                pause_ms = backoff_ms(self._attempts, self._rng.random())
                self._attempts += 1
                yield Sleep(error.pause_ms if isinstance(error, ReadAgain) else pause_ms)


class Probed(NamedTuple):
    """What a partition has from an offset on."""

    begin: int
    """Where the broker began: further on if that offset has expired, before it if the data ends there."""
    messages: Arrived | None
    """The next messages. None if there are none up to `position`."""
    start: int
    """The messages are at or after it."""
    position: int
    """How far the broker looked."""
    end: int
    """Of the broker's data."""


class ReadSession:
    """A reader's session at a partition. First `seek`. Then as often as needed: `send_fetch`, `receive` its answer,
    and `commit` what came or send the next fetch, which commits it as well. At the end, and after any error, `leave`.
    A `seek` in between begins again elsewhere."""

    def __init__(
        self, broker: BrokerInfo, partition: PartitionKey, names: ReaderNames, filters: frozenset[str] = frozenset()
    ) -> None:
        self.reader: Reader | None = None
        """The reader that has the partition now. None if none has it."""
        self.partition = partition
        self._broker = broker
        self._names = names
        self._filters = filters
        self._client_id = names.new_client_id()
        self._unanswered: list[Reader] = []
        self._former: list[Reader] = []
        """Readers that may still have the partition and must not be used again."""

    def seek(self, offset: int, context: str) -> Flow[Any]:
        """Move to `offset`, or to the nearest one that the broker holds. Returns the answer, which says where that is.

        Keeps the present reader group, else takes the first one in which the partition is free. Raises
        PartitionOccupied if it is free in none, TransportError, or the StatusError of another refusal.
        """
        if self._unanswered:
            self._part_with(self._unanswered)
            self._client_id = self._names.new_client_id()
        yield from self._leave_former()
        groups = self._names.groups if self.reader is None else (self.reader.group,)
        self.reader = None
        for group in groups:
            reader = Reader(group, self._client_id, self._names.authority)
            request = reader.register(self.partition, offset, filters=self._filters)
            answer = yield from self._ask(reader, Method.PARTITION_REGISTER, request)
            try:
                self.checked(answer, f"{context} as group {group} from broker {self._broker}")
            except PartitionOccupied:
                if group == groups[-1]:
                    raise
                continue
            break
        self.reader = reader
        return answer

    def send_fetch(self) -> Flow[Ticket]:
        """Ask for the next pack, and commit what the last fetch noted."""
        reader = self._present()
        request = reader.fetch(self.partition, commit=True, unlimited=True)
        self._unanswered.append(reader)
        ticket: Ticket = yield Send(self._broker.address, Method.GET_MESSAGES, request, parse=parse_fetched)
        return ticket

    def receive(self, ticket: Ticket) -> Flow[Any]:
        """The answer to a fetch, whatever its code."""
        reader = self._present()
        response = yield Receive(ticket)
        self._unanswered.remove(reader)
        return response

    def commit(self, context: str) -> Flow[tuple[int, int]]:
        """Commit what was fetched. Returns (position, end of the broker's data)."""
        reader = self._present()
        answer = yield from self._ask(reader, Method.COMMIT_OFFSET, reader.commit(self.partition, consumed=True))
        self.checked(answer, context)
        return answer.currOffset, answer.maxOffset

    def probe(self, offset: int, limit: int, context: str, retries: RetryPolicy | None = None) -> Flow[Probed]:
        """Move to `offset`, and look until there is a message or `limit` is reached, but for at least one answer.
        NothingToRead if that leads nowhere. Each answer is progress for `retries`."""
        answer = yield from self.seek(offset, context)
        begin = at = answer.currOffset
        end = answer.maxOffset
        while begin >= offset:
            response = yield from self.receive((yield from self.send_fetch()))
            found = response.errCode != _NOT_FOUND
            if found:
                self.checked(response, context)
            # Brokers answer 404 too if their present buffer has nothing of the partition, but the next one may.
            position, end = yield from self.commit(context)
            start, count = max(at, response.currOffset) if found else at, len(response.messages.ids)
            if count and position - count * INDEX_ENTRY_BYTES < start:
                raise ProtocolError(f"{context}: the broker ends {count} messages from {start} on at {position}")
            if not count and position <= at and (found or position < end):
                raise NothingToRead(_NOT_FOUND, "nothing to read although there is data", context=context)
            if retries is not None:
                yield from retries.progress()
            at = position
            if count:
                return Probed(begin, response.messages, start, at, end)
            if at >= limit or at >= end:
                break
        return Probed(begin, None, at, at, end)

    def was_turned_away(self) -> None:
        """Another client has the partition in this group. The next `seek` tries all groups."""
        self.reader = None

    def leave(self) -> Flow[None]:
        """Give the partition back, best effort. Without that, it is free when its lease ends."""
        self._part_with(self._unanswered)
        with contextlib.suppress(TubeError):
            yield from self._leave_former()

    def checked(self, answer: Any, context: str) -> Any:
        """Return the answer if its code is 200, else raise the error of its code."""
        return checked(answer, context, address=self._broker.address, partition=str(self.partition))

    def _part_with(self, readers: Iterable[Reader]) -> None:
        """Use none of these readers again, nor the present one."""
        present = () if self.reader is None else (self.reader,)
        self._former = list(dict.fromkeys([*self._former, *readers, *present]))
        self._unanswered.clear()
        self.reader = None

    def _leave_former(self) -> Flow[None]:
        for reader in list(self._former):
            request = reader.unregister(self.partition)
            answer = yield from call(self._broker.address, Method.PARTITION_REGISTER, request)
            if answer.errCode in _NOT_HAD:
                self._former.remove(reader)

    def _ask(self, reader: Reader, method: Method, request: Message) -> Flow[Any]:
        self._unanswered.append(reader)
        response = yield Receive((yield Send(self._broker.address, method, request)))
        self._unanswered.remove(reader)
        return response

    def _present(self) -> Reader:
        assert self.reader is not None
        return self.reader


def probe_store(broker: BrokerInfo, partitions: Iterable[PartitionKey], names: ReaderNames) -> Flow[StoreBounds]:
    """The bounds of the index of a store with these partitions, by the first one that is free in one of the groups."""
    failure: TubeError | None = None
    for key in partitions:
        session = ReadSession(broker, key, names)
        try:
            answer = yield from session.seek(0, f"asking for the offsets of {key}")
            failure = None
        except TubeError as error:
            failure = error
        yield from session.leave()
        if failure is None:
            return StoreBounds(answer.currOffset, answer.maxOffset)
        if not isinstance(failure, PartitionOccupied):
            break
    assert failure is not None, "no partition was given"
    raise failure
