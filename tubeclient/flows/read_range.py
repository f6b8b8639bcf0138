"""Reading an exact range: the messages of one partition in [start, end), the same ones in the same order each time.

It registers at `start` and fetches with lastPackConsumed=true. Registering moves the group's position, so it is done
under a reader group, never under the user's group. An answer says where its pack starts, not where it ends: the end is
the start of the next pack. So a pack is handed on when the next fetch was answered, and the fetch after that is already
sent. If nothing follows (404), or nothing more is wanted, a commit tells the position.

Where packs end depends on what the broker holds at that moment, so the last pack may go past `end`. Messages carry no
offset. If every index entry of the pack is one of its messages, they can be counted. Else it registers at `end` and
fetches the first message from there on, whose id says where to cut.

A pack that no store can hold, or hardly one, is read again: see `PackCheck`.

If damaged messages are kept, a pack with one is read twice, as one that was damaged on its way would be another message
to the next reader.

After a fault it registers again at the end of the last pack handed on. Nothing is handed on twice, and earlier requests
cannot come late in between: see `Stay`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tubeclient.counts import FetchResult, ReadCounts
from tubeclient.errors import (
    ContradictoryAnswers,
    CorruptMessage,
    DataLoss,
    NothingToRead,
    PartitionOccupied,
    PartitionTaken,
    TubeError,
)
from tubeclient.flows.effects import Emit, Flow, Now, Sleep, backoff_ms
from tubeclient.flows.message_pack import (
    READINGS,
    BadMessages,
    DamageCheck,
    MessagePack,
    PackCheck,
    corrupt_message,
    counted_place,
)
from tubeclient.flows.patience import Patience
from tubeclient.flows.stay import ReaderNames, Stay
from tubeclient.keys import INDEX_ENTRY_BYTES, BrokerInfo, OffsetRange, PartitionKey
from tubeclient.wire.messages import NO_MESSAGES, Columns, checked_columns, kept_columns
from tubeclient.wire.proto import broker_pb2

AFTER_LOSS: Final = (
    "Start from offsets that it still holds, or set fail_on_data_loss=False, in Spark failOnDataLoss=false, to go on "
    "without them"
)
"""What to do about a DataLoss of a reader of ranges."""

_EMPTY_POLL_MS = 400
_SECOND_LOOK_MS = 500
_SECOND_READING_MS = 50
_NOT_FOUND = 404
_RESULTS: dict[int, FetchResult] = {200: "messages", _NOT_FOUND: "empty"}


@dataclass(frozen=True, slots=True)
class Pack(MessagePack):
    """Messages of one partition, in order: all those in the index range [start, end).

    Iterating gives `Message` objects. `bodies` and `message_ids` are columns, which are faster.
    """

    partition: PartitionKey
    start: int
    end: int
    columns: Columns
    damaged: Mapping[int, str] | None = None
    payload_bytes: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "payload_bytes", sum(map(len, self.columns.payloads)))


@dataclass(frozen=True, slots=True)
class LostRange:
    """Index offsets [start, end) of a partition that the broker no longer holds; skipped because the reader may."""

    partition: PartitionKey
    start: int
    end: int
    within_packs: bool = False
    """Packs over these offsets were handed on. What they lack is lost, the rest was read."""

    @property
    def max_messages(self) -> int:
        """The most messages that can have been there."""
        return OffsetRange(self.partition, self.start, self.end).max_messages

    def __str__(self) -> str:
        rest = ". Those that were still there were read" if self.within_packs else ""
        return f"{OffsetRange(self.partition, self.start, self.end)}, at most {self.max_messages} messages{rest}"


@dataclass(frozen=True, slots=True)
class RangeTask:
    """What to read, and under which names."""

    broker: BrokerInfo
    range: OffsetRange
    names: ReaderNames
    filters: frozenset[str] = frozenset()
    fail_on_data_loss: bool = True
    retry_limit_ms: float = 60_000
    """How long to go on without progress."""
    turn_limit_ms: float = 600_000
    """How long to wait while others read the partition in all reader groups, if that is longer."""
    bad_messages: BadMessages = "fail"
    """What to do with messages that do not match their checksums."""
    counts: ReadCounts = field(default_factory=ReadCounts)
    """What was read so far."""
    alone: bool = False
    """The partition has its store for itself, so each index entry is a message of it."""


class _Held(NamedTuple):
    """A pack whose end is unknown yet."""

    start: int
    messages: broker_pb2.MessageColumns


def _least_end(start: int, messages: broker_pb2.MessageColumns) -> int:
    """Where a pack ends at the earliest: each message has an index entry."""
    return start + len(messages.messageId) * INDEX_ENTRY_BYTES


class _LookAgain(TubeError):
    """The answer looks like data loss. It is one only if the broker says so again."""

    retriable = True


class _Contradiction(_LookAgain):
    """Messages from `start` on, up to `end` at the most, contradict their offsets, or another reading of them."""

    def __init__(self, start: int, end: int, what: str) -> None:
        super().__init__(what)
        self.start, self.end = start, end


class _ReadAgain(Exception):
    """A message does not match its checksum, and may have been damaged on its way. `DamageCheck` says how often this
    comes."""


class RangeRead:
    """One reading of a range. The flow `run()` emits `Pack` and `LostRange`, in order and without gaps.

    The flow `release()` releases the partition; run it afterwards, however `run()` ended. Raises DataLoss for what
    the broker no longer holds, ContradictoryAnswers, DeadlineExceeded after the task's limits without progress,
    StatusError for a refusal.
    """

    def __init__(self, task: RangeTask, rng: random.Random) -> None:
        self.task = task
        self.position = task.range.start
        """End of what has been handed out."""
        self._rng = rng
        self._reading = f"reading {task.range}"
        self._stay = Stay(task.broker, task.range.partition, task.names, task.filters)
        self._patience = Patience(task.retry_limit_ms, task.turn_limit_ms)
        self._suspicion: DataLoss | None = None
        self._damage = DamageCheck()
        self._check = PackCheck(alone=task.alone and not task.filters)
        self._end = task.range.end  # lowered if the broker lost its tail and the reader may continue without it

    def run(self) -> Flow[None]:
        self._patience.progress((yield Now()))
        attempt = contradictions = 0
        while True:
            before = self.position
            try:
                yield from self._check_bounds((yield from self._seek(self.position)))
                yield from self._read_on()
                break
            except _ReadAgain:
                yield Sleep(_SECOND_READING_MS)
            except TubeError as error:
                if not isinstance(error, _LookAgain):
                    self.task.counts.failed(self.task.range.partition.topic, error)
                if self.position > before:
                    attempt = contradictions = 0
                else:
                    attempt += 1
                if isinstance(error, CorruptMessage):
                    raise  # a ProtocolError is retriable, but here the same bytes would come again
                if isinstance(error, _Contradiction):
                    contradictions += 1
                    if contradictions == READINGS:
                        raise self._contradictory(error) from None
                if isinstance(error, PartitionOccupied | PartitionTaken):
                    self._stay.was_turned_away()
                yield from self._patience.put_up_with(error, f"{self._reading} at {self.position}", self.task.broker)
                if isinstance(error, _Contradiction):
                    pause = float((contradictions - 1) * _SECOND_LOOK_MS)
                elif isinstance(error, _LookAgain):
                    pause = _SECOND_LOOK_MS
                else:
                    pause = backoff_ms(attempt, self._rng.random())
                yield Sleep(pause)
        if self._end < self.task.range.end:
            yield from self._hand_on(LostRange(self.task.range.partition, self._end, self.task.range.end))

    def release(self) -> Flow[None]:
        """Give the partition back, best effort. Without that, it is free when its lease ends."""
        yield from self._stay.leave()

    def _seek(self, offset: int) -> Flow[Any]:
        return (yield from self._stay.seek(offset, self._reading))

    def _check_bounds(self, answer: Any) -> Flow[None]:
        """Compare the position and the end of the broker's data with what the range needs."""
        if answer.currOffset > self.position:
            self._decide(answer.currOffset, "its first messages have expired")
            yield from self._hand_on(
                LostRange(self.task.range.partition, self.position, min(answer.currOffset, self._end))
            )
            if self.position < self._end:
                raise _LookAgain("continuing after the lost range")
            return  # nothing is left, and the broker's first offset may be past the end
        found = min(answer.currOffset, answer.maxOffset) if answer.currOffset < self.position else answer.maxOffset
        if found < self._end:
            self._decide(found, "the broker's data ends before it (a lost tail, or a topic created again)")
            self._end = max(found, self.position)
        self._suspicion = None

    def _decide(self, found: int, reason: str) -> None:
        """Return if the reader may go on without what is lost. Else raise: first to look again, then the DataLoss."""
        loss = DataLoss(
            f"{self.task.range} can no longer be read from {self.position} on: {reason}; "
            f"broker {self.task.broker} has {found}. {AFTER_LOSS}",
            partition=str(self.task.range.partition),
            wanted=self.position,
            found=found,
        )
        if self._suspicion is None:
            self._suspicion = loss
            raise _LookAgain(str(loss))
        self._suspicion = None
        if self.task.fail_on_data_loss:
            raise loss

    def _read_on(self) -> Flow[None]:
        """Fetch from `position`, where the reader is registered, to the end of the range."""
        end = self._end
        if self.position >= end:
            return
        held: _Held | None = None
        ticket = yield from self._stay.send_fetch()
        empty_polls = 0
        while True:
            response = yield from self._stay.receive(ticket)
            result = _RESULTS.get(response.errCode, "error")
            self.task.counts.fetched(self.task.range.partition.topic, result)
            if response.errCode == _NOT_FOUND:
                position, limit = yield from self._stay.commit(self._reading)
                if held is not None:
                    done = yield from self._settle(held, position)
                    held = None
                    if done:
                        return
                elif position > self.position:
                    yield from self._hand_on(
                        Pack(self.task.range.partition, self.position, min(position, end), NO_MESSAGES)
                    )
                if self.position >= end:
                    return
                if limit < end:
                    raise _LookAgain(f"the broker's data ends at {limit}, before {self.task.range}")
                yield from self._pause(empty_polls)
                empty_polls += 1
            else:
                self._stay.checked(response, self._reading)
                start = response.currOffset
                if held is None and start != self.position:
                    raise _LookAgain(f"the broker answered from {start} instead of {self.position}")
                if start >= end:
                    assert held is not None  # start equals position otherwise, which lies before end
                    yield from self._settle(held, start)
                    return
                if held is not None and start == held.start and not held.messages.messageId:
                    yield from self._pause(empty_polls)
                    empty_polls += 1
                reaches_end = _least_end(start, response.messages) >= end
                if not reaches_end:
                    ticket = yield from self._stay.send_fetch()
                if held is not None:
                    yield from self._settle(held, start)
                held = _Held(start, response.messages)
                if not reaches_end:
                    continue
                # A commit says where this pack ends; a fetch would make the broker read a pack that nobody wants.
                position, _ = yield from self._stay.commit(self._reading)
                if not (yield from self._settle(held, position)):
                    raise _LookAgain(f"the broker ends a pack at {position} that reaches at least to {end}")
                return
            ticket = yield from self._stay.send_fetch()

    def _settle(self, held: _Held, bound: int) -> Flow[bool]:
        """Hand on a pack that has no message of ours from its end to `bound`. True if the range is done."""
        end = self._end
        count, room = len(held.messages.messageId), (bound - held.start) // INDEX_ENTRY_BYTES
        if count > room:
            raise _Contradiction(held.start, bound, f"{count} messages came where {max(room, 0)} can be")
        ours = None
        if bound > end and held.messages.messageId:
            if bound == _least_end(held.start, held.messages):  # each index entry up to there is one of these messages
                ours = (end - held.start) // INDEX_ENTRY_BYTES
            else:
                ours = yield from self._cut(held, bound)
        try:
            columns, damaged = self._checked(held.messages, ours)
        except CorruptMessage as error:
            raise corrupt_message(self._place_of(held, error.number, bound), error) from error
        doubt = self._check.doubt(held.start, columns.ids, lacking=room - count)
        if doubt:
            raise _Contradiction(held.start, bound, doubt)
        yield from self._hand_on(Pack(self.task.range.partition, held.start, min(bound, end), columns, damaged))
        return bound >= end

    def _contradictory(self, found: _Contradiction) -> ContradictoryAnswers:
        partition = self.task.range.partition
        return ContradictoryAnswers(
            f"partition {partition}, offsets [{found.start}, {found.end}): the answers of broker {self.task.broker} "
            f"contradict each other in each of {READINGS} readings, at last: {found}. No message from offset "
            f"{found.start} on was handed out. Look for what changes answers between here and that broker, such as a "
            "proxy, and restart the broker if its log shows faults; then read again from there",
            partition=str(partition),
        )

    def _checked(
        self, messages: broker_pb2.MessageColumns, ours: int | None
    ) -> tuple[Columns, Mapping[int, str] | None]:
        """The messages, and which of them are damaged if these are kept."""
        if self.task.bad_messages == "fail":
            return checked_columns(messages, ours), None
        columns, damaged = kept_columns(messages, ours)
        if not self._damage.came_again(columns, damaged):
            raise _ReadAgain
        return columns, damaged

    def _place_of(self, held: _Held, number: int | None, bound: int) -> OffsetRange:
        if number is None:
            return OffsetRange(self.task.range.partition, held.start, bound)
        messages = len(held.messages.messageId)
        return counted_place(self.task.range.partition, held.start, bound, messages, number)

    def _cut(self, held: _Held, bound: int) -> Flow[int]:
        """How many of the pack's messages lie before `end`; the pack may go up to `bound`. See the module's
        docstring.
        """
        end, ids = self._end, held.messages.messageId
        answer = yield from self._seek(end)
        if answer.currOffset != end:
            raise _LookAgain(f"the broker went to {answer.currOffset} instead of {end}")
        at = end
        while at < bound:
            messages, _, position, limit = yield from self._stay.step(at, f"finding the end of {self.task.range}")
            if messages is not None:
                yield from self._check_nothing_expired(held)
                first_beyond = messages.messageId[0]
                ours = list(ids).index(first_beyond) if first_beyond in ids else len(ids)
                before, behind = (end - held.start) // INDEX_ENTRY_BYTES, (bound - end) // INDEX_ENTRY_BYTES
                if ours > before or len(ids) - ours > behind:
                    what = f"{ours} messages came before offset {end} and {len(ids) - ours} from there on"
                    raise _Contradiction(held.start, bound, f"{what}, where {before} and {behind} can be")
                return ours
            if limit <= position < bound:
                raise _LookAgain(f"the broker's data ends at {limit}, and a pack reached to {bound}")
            at = position
        yield from self._check_nothing_expired(held)
        return len(ids)

    def _check_nothing_expired(self, held: _Held) -> Flow[None]:
        """What expired behind `end` while it was looked at would be passed over, and the pack cut too late. Data
        expires from its beginning on, so the pack's first message would be gone too. Without leave to go on after a
        loss the end of the read finds that out.
        """
        if self.task.fail_on_data_loss:
            return
        yield from self._seek(held.start)
        messages, *_ = yield from self._stay.step(held.start, f"reading {self.task.range} at {held.start} again")
        if messages is None or messages.messageId[0] != held.messages.messageId[0]:
            raise _LookAgain(f"messages from {held.start} on expired while the end of {self.task.range} was looked for")

    def _hand_on(self, what: Pack | LostRange) -> Flow[None]:
        further = what.end > self.position
        self.position = what.end
        yield Emit(what)
        if further:
            self._patience.progress((yield Now()))

    def _pause(self, empty_polls: int) -> Flow[None]:
        """Wait before the next fetch, as the last one brought nothing."""
        if self._patience.is_over((yield Now())):
            raise NothingToRead(_NOT_FOUND, "repeatedly no message and no end", context=self._reading)
        yield Sleep(backoff_ms(empty_polls, self._rng.random(), first_ms=20, limit_ms=_EMPTY_POLL_MS))
