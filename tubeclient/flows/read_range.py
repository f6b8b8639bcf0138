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
cannot come late in between: see `ReadSession`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, NoReturn

from tubeclient.counts import FetchResult, ReadCounts
from tubeclient.errors import ContradictoryAnswers, CorruptMessage, DataLoss, NothingToRead, TubeError
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
from tubeclient.flows.read_session import ReadAgain, ReaderNames, ReadSession, RetryPolicy
from tubeclient.keys import INDEX_ENTRY_BYTES, BrokerInfo, OffsetRange, PartitionKey
from tubeclient.wire.messages import NO_MESSAGES, Arrived, Columns, checked_columns, unchecked_columns

_EMPTY_POLL_MS = 400
_LOSS_RETRY_MS: Final = 500
_SECOND_READING_MS: Final = 50
_NOT_FOUND = 404
_RESULTS: dict[int, FetchResult] = {200: "messages", _NOT_FOUND: "empty"}

TURN_LIMIT_MS: Final = 600_000.0
"""How long to wait while others read the partition in all reader groups, if the retry limit is not longer."""


def data_loss(partition: PartitionKey, wanted: int, found: int, what: str) -> DataLoss:
    """The error of a reader of ranges."""
    return DataLoss(
        f"{what}. Start from offsets that the broker still holds, or skip the lost messages with "
        "fail_on_data_loss=False, in Spark failOnDataLoss=false",
        partition=str(partition),
        wanted=wanted,
        found=found,
    )


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
        object.__setattr__(self, "payload_bytes", self.columns.payload_bytes)


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
        rest = ". The messages that were still there were read" if self.within_packs else ""
        return f"{OffsetRange(self.partition, self.start, self.end)}, at most {self.max_messages} messages{rest}"


class _Pending(NamedTuple):
    """A pack whose end is unknown yet."""

    start: int
    messages: Arrived


def _least_end(start: int, messages: Arrived) -> int:
    """Where a pack ends at the earliest: each message has an index entry."""
    return start + len(messages.ids) * INDEX_ENTRY_BYTES


class RangeRead:
    """One reading of a range. The flow `run()` emits `Pack` and `LostRange`, in order and without gaps.

    The flow `release()` releases the partition; run it afterwards, however `run()` ended. Raises DataLoss for what
    the broker no longer holds, ContradictoryAnswers, DeadlineExceeded after the limits without progress, StatusError
    for a refusal. `alone`: the partition has its store for itself, so each index entry is a message of it.
    """

    def __init__(
        self,
        broker: BrokerInfo,
        wanted: OffsetRange,
        names: ReaderNames,
        rng: random.Random,
        *,
        filters: frozenset[str] = frozenset(),
        fail_on_data_loss: bool = True,
        retry_limit_ms: float = 60_000,
        turn_limit_ms: float = TURN_LIMIT_MS,
        bad_messages: BadMessages = "fail",
        counts: ReadCounts | None = None,
        alone: bool = False,
    ) -> None:
        self.position = wanted.start
        """End of what has been handed out."""
        self._broker = broker
        self._range = wanted
        self._partition = wanted.partition
        self._rng = rng
        self._fail_on_data_loss = fail_on_data_loss
        self._keeps_bad = bad_messages == "keep"
        self._counts = counts or ReadCounts()
        self._reading = f"reading {wanted}"
        self._session = ReadSession(broker, wanted.partition, names, filters)
        self._retries = RetryPolicy(broker, rng, retry_limit_ms, turn_limit_ms)
        self._suspected = False
        self._damage = DamageCheck()
        self._check = PackCheck(alone=alone and not filters)
        self._contradictions = 0
        """In a row, of one pack."""
        self._end = wanted.end  # lowered if the broker lost its tail and the reader may continue without it

    def run(self) -> Flow[None]:
        yield from self._retries.run_flow(self._go_on, lambda: f"{self._reading} at {self.position}", self._session)
        if self._end < self._range.end:
            yield from self._hand_on(LostRange(self._partition, self._end, self._range.end))

    def release(self) -> Flow[None]:
        """Give the partition back, best effort. Without that, it is free when its lease ends."""
        yield from self._session.leave()

    def _go_on(self) -> Flow[None]:
        try:
            yield from self._check_bounds((yield from self._session.seek(self.position, self._reading)))
            yield from self._read_on()
        except TubeError as error:
            if not isinstance(error, ReadAgain):
                self._counts.failed(self._partition.topic, error)
            raise

    def _check_bounds(self, answer: Any) -> Flow[None]:
        """Compare the position and the end of the broker's data with what the range needs."""
        if answer.currOffset > self.position:
            self._decide(answer.currOffset, "its first messages have expired")
            yield from self._hand_on(LostRange(self._partition, self.position, min(answer.currOffset, self._end)))
            if self.position < self._end:
                raise ReadAgain("continuing after the lost range")
            return  # nothing is left, and the broker's first offset may be past the end
        found = min(answer.currOffset, answer.maxOffset) if answer.currOffset < self.position else answer.maxOffset
        if found < self._end:
            self._decide(found, "the broker's data ends before it (a lost tail, or a topic created again)")
            self._end = max(found, self.position)
        self._suspected = False

    def _decide(self, found: int, reason: str) -> None:
        """Return if the reader may go on without what is lost. Else raise: first to look again, then the DataLoss."""
        loss = data_loss(
            self._partition,
            self.position,
            found,
            f"{self._range} can no longer be read from {self.position} on: {reason}; broker {self._broker} has {found}",
        )
        self._suspected = not self._suspected
        if self._suspected:
            raise ReadAgain(str(loss), _LOSS_RETRY_MS)
        if self._fail_on_data_loss:
            raise loss

    def _read_on(self) -> Flow[None]:
        """Fetch from `position`, where the reader is registered, to the end of the range."""
        end = self._end
        if self.position >= end:
            return
        pending: _Pending | None = None
        ticket = yield from self._session.send_fetch()
        empty_polls = 0
        while True:
            response = yield from self._session.receive(ticket)
            result = _RESULTS.get(response.errCode, "error")
            self._counts.fetched(self._partition.topic, result)
            if response.errCode == _NOT_FOUND:
                position, limit = yield from self._session.commit(self._reading)
                if pending is not None:
                    done = yield from self._settle(pending, position)
                    pending = None
                    if done:
                        return
                elif position > self.position:
                    yield from self._hand_on(Pack(self._partition, self.position, min(position, end), NO_MESSAGES))
                if self.position >= end:
                    return
                if limit < end:
                    raise ReadAgain(f"the broker's data ends at {limit}, before {self._range}")
                yield from self._pause(empty_polls)
                empty_polls += 1
            else:
                self._session.checked(response, self._reading)
                start = response.currOffset
                if pending is None and start != self.position:
                    raise ReadAgain(f"the broker answered from {start} instead of {self.position}")
                if start >= end:
                    assert pending is not None  # start equals position otherwise, which lies before end
                    yield from self._settle(pending, start)
                    return
                if pending is not None and start == pending.start and not pending.messages.ids:
                    yield from self._pause(empty_polls)
                    empty_polls += 1
                reaches_end = _least_end(start, response.messages) >= end
                if not reaches_end:
                    ticket = yield from self._session.send_fetch()
                if pending is not None:
                    yield from self._settle(pending, start)
                pending = _Pending(start, response.messages)
                if not reaches_end:
                    continue
                # A commit says where this pack ends; a fetch would make the broker read a pack that nobody wants.
                position, _ = yield from self._session.commit(self._reading)
                if not (yield from self._settle(pending, position)):
                    raise ReadAgain(f"the broker ends a pack at {position} that reaches at least to {end}")
                return
            ticket = yield from self._session.send_fetch()

    def _settle(self, pending: _Pending, bound: int) -> Flow[bool]:
        """Hand on a pack that has no message of ours from its end to `bound`. True if the range is done."""
        end = self._end
        count, room = len(pending.messages.ids), (bound - pending.start) // INDEX_ENTRY_BYTES
        if count > room:
            self._contradiction(pending, bound, f"{count} messages came where at most {max(room, 0)} are possible")
        ours = None
        if bound > end and pending.messages.ids:
            # Each index entry up to there is one of these messages.
            if bound == _least_end(pending.start, pending.messages):
                ours = (end - pending.start) // INDEX_ENTRY_BYTES
            else:
                ours = yield from self._cut(pending, bound)
        try:
            columns, damaged = self._checked(pending.messages, ours)
        except CorruptMessage as error:
            place = OffsetRange(self._partition, pending.start, bound)
            if error.number is not None:
                place = counted_place(*place, count, error.number)
            raise corrupt_message(place, error) from error
        contradiction = self._check.contradiction(pending.start, columns.ids, lacking=room - count)
        if contradiction:
            self._contradiction(pending, bound, contradiction)
        yield from self._hand_on(Pack(self._partition, pending.start, min(bound, end), columns, damaged))
        return bound >= end

    def _contradiction(self, pending: _Pending, bound: int, what: str) -> NoReturn:
        """The messages of a pack contradict their offsets, or another reading of them: read it again, some times."""
        self._contradictions += 1
        if self._contradictions < READINGS:
            raise ReadAgain(what, (self._contradictions - 1) * _LOSS_RETRY_MS)
        raise ContradictoryAnswers(
            f"partition {self._partition}, offsets [{pending.start}, {bound}): the answers of broker {self._broker} "
            f"contradict each other in each of {READINGS} reads, the last time because {what}. No message from "
            f"offset {pending.start} on was delivered. Look for something that alters answers between here and that "
            "broker, such as a proxy, and restart the broker if its log shows faults; then read again from that "
            "offset",
            partition=str(self._partition),
        )

    def _checked(self, messages: Arrived, ours: int | None) -> tuple[Columns, Mapping[int, str] | None]:
        """The messages, and which of them are damaged if these are kept."""
        if not self._keeps_bad:
            return checked_columns(messages, ours), None
        columns, damaged = unchecked_columns(messages, ours)
        if not self._damage.came_again(columns, damaged):
            raise ReadAgain("a message does not match its checksum", _SECOND_READING_MS)
        return columns, damaged

    def _cut(self, pending: _Pending, bound: int) -> Flow[int]:
        """How many of the pack's messages lie before `end`; the pack may go up to `bound`. See the module's
        docstring.
        """
        end, ids = self._end, pending.messages.ids
        seen = yield from self._session.probe(end, bound, f"finding the end of {self._range}")
        if seen.begin != end:
            raise ReadAgain(f"the broker went to {seen.begin} instead of {end}")
        if seen.messages is None and seen.position < bound:
            raise ReadAgain(f"the broker's data ends at {seen.end}, and a pack reached to {bound}")
        yield from self._check_nothing_expired(pending)
        if seen.messages is None:
            return len(ids)
        first_beyond = seen.messages.ids[0]
        ours = list(ids).index(first_beyond) if first_beyond in ids else len(ids)
        before, behind = (end - pending.start) // INDEX_ENTRY_BYTES, (bound - end) // INDEX_ENTRY_BYTES
        if ours > before or len(ids) - ours > behind:
            what = f"{ours} messages came before offset {end} and {len(ids) - ours} from that offset on"
            self._contradiction(pending, bound, f"{what}, where at most {before} and {behind} are possible")
        return ours

    def _check_nothing_expired(self, pending: _Pending) -> Flow[None]:
        """What expired behind `end` while it was looked at would be passed over, and the pack cut too late. Data
        expires from its beginning on, so the pack's first message would be gone too. Without leave to go on after a
        loss the end of the read finds that out.
        """
        if self._fail_on_data_loss:
            return
        start = pending.start
        seen = yield from self._session.probe(start, start, f"reading {self._range} at {start} again")
        if seen.messages is None or seen.messages.ids[0] != pending.messages.ids[0]:
            raise ReadAgain(f"messages from {pending.start} on expired during the search for the end of {self._range}")

    def _hand_on(self, what: Pack | LostRange) -> Flow[None]:
        further = what.end > self.position
        self.position = what.end
        yield Emit(what)
        if further:
            self._contradictions = 0
            yield from self._retries.progress()

    def _pause(self, empty_polls: int) -> Flow[None]:
        """Wait before the next fetch, as the last one brought nothing."""
        if self._retries.is_over((yield Now())):
            raise NothingToRead(_NOT_FOUND, "repeatedly no message and no end", context=self._reading)
        yield Sleep(backoff_ms(empty_polls, self._rng.random(), first_ms=20, limit_ms=_EMPTY_POLL_MS))
