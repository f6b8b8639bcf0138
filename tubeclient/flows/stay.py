"""One reader at one partition, in whichever of its reader groups is free: register, fetch, commit, leave.

A request may reach its broker long after its connection broke, or after its caller gave up waiting. A late fetch or
commit moves the position, a late registration moves it elsewhere. The broker cannot tell them from new ones: it knows a
reader by client id and group alone. So a client id is not used again once a request under it was not answered. What
comes late under it is refused (411, 412), or moves a position that nobody reads from.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from google.protobuf.message import Message

from tubeclient.errors import ConfigurationError, NothingToRead, PartitionOccupied, ProtocolError, TubeError
from tubeclient.flows.effects import Flow, Receive, Send, Ticket, call, checked
from tubeclient.flows.reader import FREE, TAKEN, Authority, Reader
from tubeclient.keys import INDEX_ENTRY_BYTES, BrokerInfo, PartitionKey, StoreBounds
from tubeclient.wire.methods import Method
from tubeclient.wire.proto import broker_pb2

_NOT_HAD = (200, FREE, TAKEN)
"""Codes that answer an unregister if the client does not have the partition afterwards."""

_FAILED = 500
"""The client may have the partition then: the broker notes who registers before it looks at the partition."""

_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class ReaderNames:
    """Under which names brokers are asked."""

    groups: tuple[str, ...]
    """Tried in order: the first one in which a partition is free is taken."""
    new_client_id: Callable[[], str]
    """Makes a new unique client id at each call."""
    authority: Authority = field(default_factory=Authority)

    def __post_init__(self) -> None:
        if not self.groups:
            raise ConfigurationError("there is no reader group; name at least one")


class Step(NamedTuple):
    """What one fetch and its commit gave."""

    messages: Any | None
    """Columns with the partition's next messages. None if there were none up to `position`."""
    start: int
    """They are at or after it."""
    position: int
    end: int
    """Of the broker's data."""


class Stay:
    def __init__(
        self, broker: BrokerInfo, partition: PartitionKey, names: ReaderNames, filters: frozenset[str] = frozenset()
    ) -> None:
        self.reader: Reader | None = None
        """The reader that has the partition now. None if none has it."""
        self._broker = broker
        self._partition = partition
        self._name = str(partition)
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
        try:
            for group in groups:
                try:
                    answer = yield from self._register(group, offset, context)
                    break
                except PartitionOccupied:
                    if group == groups[-1]:
                        raise
            self.reader = self._reader_in(group)
        except TubeError:
            raise
        except BaseException:  # the caller was interrupted: any of these may have it
            self._part_with([*self._unanswered, *map(self._reader_in, groups)])
            raise
        return answer

    def send_fetch(self) -> Flow[Ticket]:
        """Ask for the next pack, and commit what the last fetch noted."""
        reader = self._present()
        request = reader.fetch(self._partition, commit=True, unlimited=True)
        answer = broker_pb2.GetMessageColumnsB2C
        self._unanswered.append(reader)
        ticket: Ticket = yield Send(self._broker.address, Method.GET_MESSAGES, request, answer=answer)
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
        answer = yield from self._ask(reader, Method.COMMIT_OFFSET, reader.commit(self._partition, consumed=True))
        self.checked(answer, context)
        return answer.currOffset, answer.maxOffset

    def step(self, passed: int, context: str) -> Flow[Step]:
        """Fetch from the position `passed`, and commit that. NothingToRead if that leads nowhere."""
        response = yield from self.receive((yield from self.send_fetch()))
        found = response.errCode != _NOT_FOUND
        if found:
            self.checked(response, context)
        # Brokers answer 404 too if their present buffer has nothing of the partition, but the next one may.
        position, end = yield from self.commit(context)
        start, count = max(passed, response.currOffset) if found else passed, len(response.messages.messageId)
        if count and position - count * INDEX_ENTRY_BYTES < start:
            raise ProtocolError(f"{context}: the broker ends {count} messages from {start} on at {position}")
        if not count and position <= passed and (found or position < end):
            raise NothingToRead(_NOT_FOUND, "nothing to read although there is data", context=context)
        return Step(response.messages if count else None, start, position, end)

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
        return checked(answer, context, address=self._broker.address, partition=self._name)

    def _register(self, group: str, offset: int, context: str) -> Flow[Any]:
        reader = self._reader_in(group)
        request = reader.register(self._partition, offset, filters=self._filters)
        answer = yield from self._ask(reader, Method.PARTITION_REGISTER, request)
        if answer.errCode == _FAILED:
            self._part_with([reader])
        return self.checked(answer, f"{context} as group {group} from broker {self._broker}")

    def _part_with(self, readers: Iterable[Reader]) -> None:
        """Use none of these readers again, nor the present one."""
        present = () if self.reader is None else (self.reader,)
        self._former = list(dict.fromkeys([*self._former, *readers, *present]))
        self._unanswered.clear()
        self.reader = None

    def _leave_former(self) -> Flow[None]:
        for reader in list(self._former):
            request = reader.unregister(self._partition)
            answer = yield from call(self._broker.address, Method.PARTITION_REGISTER, request)
            if answer.errCode in _NOT_HAD:
                self._former.remove(reader)

    def _ask(self, reader: Reader, method: Method, request: Message) -> Flow[Any]:
        self._unanswered.append(reader)
        response = yield Receive((yield Send(self._broker.address, method, request)))
        self._unanswered.remove(reader)
        return response

    def _reader_in(self, group: str) -> Reader:
        return Reader(group, self._client_id, self._names.authority)

    def _present(self) -> Reader:
        assert self.reader is not None
        return self.reader


def probe_store(broker: BrokerInfo, partitions: Sequence[PartitionKey], names: ReaderNames) -> Flow[StoreBounds]:
    """Ask `broker` for the bounds of the store of `partitions`, by the first one that is free in one of the groups."""
    refusal: TubeError | None = None
    for key in partitions:
        stay = Stay(broker, key, names)
        try:
            answer = yield from stay.seek(0, f"asking for the offsets of {key}")
        except TubeError as error:
            yield from stay.leave()
            if not isinstance(error, PartitionOccupied):
                raise
            refusal = error
        else:
            yield from stay.leave()
            return StoreBounds(answer.currOffset, answer.maxOffset)
    assert refusal is not None, "no partition was given"
    raise refusal
