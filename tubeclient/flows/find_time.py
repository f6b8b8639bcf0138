"""The first offset of a partition from a minute on, by the times that producers wrote on its messages.

Brokers map no time to an offset of a topic (their by-time calls look into the history of groups), so messages are
looked at: register at an offset, under a reader group as every register moves its group's position, and fetch. The
first message of the answer is the partition's first at that offset or behind it.
"""

from __future__ import annotations

import contextlib
import random
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any

from tubeclient.errors import (
    CorruptMessage,
    DeadlineExceeded,
    NoMessageTime,
    NotAvailable,
    NothingToRead,
    PartitionOccupied,
    PartitionTaken,
    ProtocolError,
    TubeError,
)
from tubeclient.flows.authority import Authority
from tubeclient.flows.effects import Flow, Now, Sleep, backoff_ms, call, checked
from tubeclient.flows.reader import Reader, in_first_free
from tubeclient.flows.time_search import TimeSearch
from tubeclient.keys import BrokerInfo, PartitionKey, StoreBounds
from tubeclient.wire.message_time import MINUTE_MS, message_time_ms
from tubeclient.wire.messages import Message
from tubeclient.wire.methods import Method
from tubeclient.wire.payload import checksum

__all__ = ["TimeTask", "TimedLook"]

_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class TimeTask:
    """What to find, and as whom. `reader_groups` are tried in order, as for ranges."""

    broker: BrokerInfo
    partition: PartitionKey
    bounds: StoreBounds
    """Where to look: the store's bounds."""
    minute: int
    """Minutes since 1970."""
    zone: tzinfo
    """Of the producers' clocks."""
    reader_groups: tuple[str, ...]
    client_id: str
    retry_limit_ms: float = 60_000
    """How long to go on without any progress."""
    authority: Authority = field(default_factory=Authority)


class TimedLook:
    """One search. `run()` is the flow: it returns the offset, or None where no message is of the minute or later.

    `release()` is the flow that gives the partition back; run it afterwards however `run()` ended. Raises
    NoMessageTime, CorruptMessage, DeadlineExceeded where no progress was made for `retry_limit_ms`, and the StatusError
    of a refusal.
    """

    def __init__(self, task: TimeTask, rng: random.Random) -> None:
        self._task = task
        self._rng = rng
        self._group: str | None = None
        self._progress_ms = 0.0
        self._furthest = -1  # of the present look, over all tries

    def run(self) -> Flow[int | None]:
        search = TimeSearch(self._task.bounds, self._task.minute)
        self._progress_ms = yield Now()
        attempt = 0
        while (offset := search.to_look_at) is not None:
            try:
                yield from self._look(search, offset)
                attempt, self._furthest, self._progress_ms = 0, -1, (yield Now())
            except TubeError as error:
                patient = error.retriable or isinstance(error, NotAvailable | PartitionTaken)
                if not patient or isinstance(error, CorruptMessage):
                    raise
                if isinstance(error, PartitionOccupied | PartitionTaken):
                    self._group = None
                idle_ms = (yield Now()) - self._progress_ms
                if idle_ms >= self._task.retry_limit_ms:
                    raise DeadlineExceeded(
                        f"no progress for {idle_ms / 1000:.0f} s looking for a time in partition "
                        f"{self._task.partition} at {offset} on broker {self._task.broker}: {error}. "
                        "Look at that broker and the way to it, or allow a longer retry limit",
                        address=self._task.broker.address,
                    ) from error
                yield Sleep(backoff_ms(attempt, self._rng.random()))
                attempt += 1
        return search.found

    def release(self) -> Flow[None]:
        """Give the partition back, best effort: the broker frees it by itself when its lease ends."""
        if self._group is not None:
            request = self._reader(self._group).unregister(self._task.partition)
            self._group = None
            with contextlib.suppress(TubeError):
                yield from call(self._task.broker.address, Method.PARTITION_REGISTER, request)

    def _look(self, search: TimeSearch, offset: int) -> Flow[None]:
        """Tell `search` what is at `offset` or behind it."""
        reader, answer = yield from self._register(offset)
        if answer.currOffset > offset:
            search.expired(answer.currOffset)
            return
        if answer.currOffset < offset:  # the broker's data ends there now
            search.saw_nothing(offset)
            return
        passed = empty_from = -1
        while passed < search.limit:
            request = reader.fetch(self._task.partition, commit=True, unlimited=True)
            response = yield from call(self._task.broker.address, Method.GET_MESSAGES, request)
            if response.errCode == _NOT_FOUND:
                # Also where a buffer of the broker holds nothing of the partition but the next one may.
                position, end = yield from self._commit(reader)
                if position >= end:
                    break
                if position <= passed:
                    raise NothingToRead(_NOT_FOUND, "nothing to read although data is there", context=self._doing)
                passed = position
            else:
                self._checked(response)
                start = response.currOffset
                if start < max(passed, offset) or start == empty_from:
                    raise ProtocolError(
                        f"{self._doing}: the broker answers from {start} on, and was asked for what is behind "
                        f"{max(passed, offset)}"
                    )
                passed = start
                if response.messages:
                    search.saw(offset, passed, self._minute_of(response.messages[0]))
                    return
                empty_from = passed
            if passed > self._furthest:
                self._furthest, self._progress_ms = passed, (yield Now())
        search.saw_nothing(offset)

    def _commit(self, reader: Reader) -> Flow[tuple[int, int]]:
        """Return (position, end of the broker's data)."""
        request = reader.commit(self._task.partition, consumed=True)
        answer = yield from call(self._task.broker.address, Method.COMMIT_OFFSET, request)
        self._checked(answer)
        return answer.currOffset, answer.maxOffset

    def _register(self, offset: int) -> Flow[tuple[Reader, Any]]:
        """Take the partition in the first reader group where it is free, at `offset`."""
        groups = [self._group] if self._group is not None else list(self._task.reader_groups)

        def register(group: str) -> Flow[Any]:
            request = self._reader(group).register(self._task.partition, offset)
            answer = yield from call(self._task.broker.address, Method.PARTITION_REGISTER, request)
            return self._checked(answer)

        self._group, answer = yield from in_first_free(groups, register)
        return self._reader(self._group), answer

    def _minute_of(self, message: Any) -> int:
        if checksum(message.payLoadData) != message.checkSum:
            raise CorruptMessage(f"{self._doing}: the message with id {message.messageId} does not match its checksum")
        text = Message(message.messageId, message.payLoadData, message.flag).time
        time_ms = message_time_ms(text, self._task.zone)
        if time_ms is None:
            key = self._task.partition
            raise NoMessageTime(
                f"the message with id {message.messageId} of partition {key} (topic {key.topic}) "
                + (f"has {text!r} for its time, which is not yyyyMMddHHmm" if text else "carries no time"),
                partition=str(key),
            )
        return time_ms // MINUTE_MS

    @property
    def _doing(self) -> str:
        return f"looking for a time in partition {self._task.partition} on broker {self._task.broker}"

    def _checked(self, answer: Any) -> Any:
        return checked(answer, self._doing, address=self._task.broker.address, partition=str(self._task.partition))

    def _reader(self, group: str) -> Reader:
        return Reader(group, self._task.client_id, self._task.authority)
