"""What a partition has from an offset on, asked of the broker: register there, under a reader group as every register
moves its group's position, and fetch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tubeclient.errors import NothingToRead, ProtocolError, TubeError
from tubeclient.flows.authority import Authority
from tubeclient.flows.data_search import Seen, first_with_data, has_data_before
from tubeclient.flows.effects import Flow, Receive, Send, call, checked
from tubeclient.flows.reader import Reader, in_first_free
from tubeclient.keys import INDEX_ENTRY_BYTES, BrokerInfo, PartitionKey, StoreBounds
from tubeclient.wire.methods import Method
from tubeclient.wire.proto import broker_pb2

__all__ = ["DataLook"]

_NOT_FOUND = 404


@dataclass
class DataLook:
    """Looks into one store of `broker`. `partitions` are all of the store's, those first that are likely to have much.

    Methods raise the StatusError of a refusal, PartitionOccupied where a partition is read in all `reader_groups`, and
    what an answer fails with. Run `release()` afterwards however they ended.
    """

    broker: BrokerInfo
    partitions: Sequence[PartitionKey]
    reader_groups: Sequence[str]
    client_id: str
    authority: Authority = field(default_factory=Authority)
    _groups: dict[PartitionKey, str] = field(default_factory=dict)

    def has_data_before(self, offset: int) -> Flow[bool]:
        """Whether there is data just before `offset`, and so from there on; False says nothing."""
        return (yield from has_data_before(self._look, len(self.partitions), offset))

    def first(self, bounds: StoreBounds, enough: int = -1) -> Flow[int]:
        """The first offset within the index's `bounds` that has data; any that this does not exceed, where that is
        `enough`.
        """
        return (yield from first_with_data(self._look, len(self.partitions), bounds, enough))

    def index_bounds(self) -> Flow[StoreBounds]:
        """The index's own bounds."""
        answer = yield from self._register(self.partitions[0], 0)
        return StoreBounds(answer.currOffset, answer.maxOffset)

    def release(self) -> Flow[None]:
        """Give the partitions back, best effort."""
        while self._groups:
            key, group = self._groups.popitem()
            request = Reader(group, self.client_id, self.authority).unregister(key)
            with contextlib.suppress(TubeError):
                yield from call(self.broker.address, Method.PARTITION_REGISTER, request)

    def _look(self, number: int, offset: int, limit: int) -> Flow[Seen]:
        key = self.partitions[number]
        answer = yield from self._register(key, offset)
        if answer.currOffset < offset:  # the broker's data ends there now
            return Seen(None, offset + INDEX_ENTRY_BYTES)
        reader = Reader(self._groups[key], self.client_id, self.authority)
        passed = answer.currOffset
        while True:
            request = reader.fetch(key, commit=True, unlimited=True)
            ticket = yield Send(
                self.broker.address, Method.GET_MESSAGES, request, answer=broker_pb2.GetMessageColumnsB2C
            )
            response = yield Receive(ticket)
            found = response.errCode != _NOT_FOUND
            if found:
                self._checked(response, key)
            committed = yield from call(self.broker.address, Method.COMMIT_OFFSET, reader.commit(key, consumed=True))
            position = self._checked(committed, key).currOffset
            if found and (ids := response.messages.messageId):
                last = position - len(ids) * INDEX_ENTRY_BYTES
                if last < passed:
                    raise ProtocolError(f"{len(ids)} messages of {key} from {passed} on end at {position}")
                return Seen(ids[0], last)
            if position <= passed and (found or position < committed.maxOffset):
                raise NothingToRead(_NOT_FOUND, "nothing to read although data is there", context=_looking_at(key))
            passed = position
            if passed >= limit or passed >= committed.maxOffset:
                return Seen(None, max(passed, offset + INDEX_ENTRY_BYTES))

    def _register(self, key: PartitionKey, offset: int) -> Flow[Any]:
        groups = [self._groups[key]] if key in self._groups else self.reader_groups

        def register(group: str) -> Flow[Any]:
            request = Reader(group, self.client_id, self.authority).register(key, offset)
            answer = yield from call(self.broker.address, Method.PARTITION_REGISTER, request)
            return self._checked(answer, key)

        self._groups.pop(key, None)
        self._groups[key], answer = yield from in_first_free(groups, register)
        return answer

    def _checked(self, answer: Any, key: PartitionKey) -> Any:
        return checked(answer, _looking_at(key), address=self.broker.address, partition=str(key))


def _looking_at(key: PartitionKey) -> str:
    return f"looking for the first data of partition {key}"
