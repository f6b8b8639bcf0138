"""The first offset of a partition from a minute on, by the times that producers wrote on its messages.

Brokers map no time to an offset of a topic: their calls by time look into the history of groups. So the search looks at
messages. It registers at an offset, under a reader group since every registration moves its group's position, and
fetches. The first message of the answer is the partition's first one at or after that offset.
"""

from __future__ import annotations

import random
from datetime import tzinfo
from typing import Any

from tubeclient.errors import (
    CorruptMessage,
    NoMessageTime,
    PartitionOccupied,
    PartitionTaken,
    TubeError,
)
from tubeclient.flows.effects import Flow, Now, Sleep, backoff_ms
from tubeclient.flows.message_pack import BadMessages
from tubeclient.flows.patience import Patience
from tubeclient.flows.stay import ReaderNames, Stay
from tubeclient.flows.time_search import MinuteSearch
from tubeclient.keys import BrokerInfo, PartitionKey
from tubeclient.wire.message_time import MINUTE_MS, message_time_ms
from tubeclient.wire.messages import Message, bad_attributes, checked_columns, kept_columns


class TimedLook:
    """One search. The flow `run()` returns what it found. `zone` is that of the producers' clocks. With `bad_messages`
    "keep", a message that is damaged or cannot be parsed counts as old as the next good one.

    The flow `release()` releases the partition; run it afterwards, however `run()` ended. Raises NoMessageTime,
    CorruptMessage, DeadlineExceeded after `retry_limit_ms` without progress, and the StatusError of a refusal.
    """

    def __init__(
        self,
        broker: BrokerInfo,
        partition: PartitionKey,
        names: ReaderNames,
        search: MinuteSearch,
        rng: random.Random,
        *,
        zone: tzinfo,
        retry_limit_ms: float = 60_000,
        bad_messages: BadMessages = "fail",
    ) -> None:
        self._broker = broker
        self._partition = partition
        self._search = search
        self._rng = rng
        self._zone = zone
        self._bad_messages = bad_messages
        self._stay = Stay(broker, partition, names)
        self._patience = Patience(retry_limit_ms, retry_limit_ms)

    def run(self) -> Flow[int | None]:
        self._patience.progress((yield Now()))
        while (offset := self._search.to_look_at) is not None:
            yield from self._look(offset)
        return self._search.found

    def release(self) -> Flow[None]:
        """Give the partition back, best effort. Without that, it is free when its lease ends."""
        yield from self._stay.leave()

    def _look(self, offset: int) -> Flow[None]:
        """Tell the search what is at or after `offset`. After a fault it goes on where it was."""
        search, at, attempt = self._search, offset, 0
        only_bad = registered = False
        while True:
            try:
                if not registered:
                    answer = yield from self._stay.seek(at, self._doing)
                    if answer.currOffset > at:
                        search.expired(answer.currOffset)
                        return
                    if answer.currOffset < at:  # the broker's data now ends there
                        break
                    registered = True
                step = yield from self._stay.step(at, self._doing)
            except TubeError as error:
                if isinstance(error, PartitionOccupied | PartitionTaken):
                    self._stay.was_turned_away()
                yield from self._patience.put_up_with(error, f"{self._doing} at {at}", self._broker)
                yield Sleep(backoff_ms(attempt, self._rng.random()))
                attempt, registered = attempt + 1, False
                continue
            self._patience.progress((yield Now()))
            attempt = 0
            if step.messages is not None:
                good = self._good_one(step.messages)
                if good is not None:
                    search.saw(offset, step.start, self._minute_of(good))
                    return
                only_bad = True
            at = step.position
            if at >= min(search.limit, step.end):
                break
        if only_bad:
            search.saw_only_bad(offset)
        else:
            search.saw_nothing(offset)

    def _good_one(self, messages: Any) -> Message | None:
        """The first of these messages; where bad ones are kept, the first good one if there is any."""
        try:
            if self._bad_messages == "fail":
                (first,) = map(Message, *checked_columns(messages, 1))
                return first
            columns, bad = kept_columns(messages)
        except CorruptMessage as error:
            raise CorruptMessage(f"{self._doing}: {error}") from error
        bad |= bad_attributes(columns)
        return next((one for number, one in enumerate(map(Message, *columns)) if number not in bad), None)

    def _minute_of(self, first: Message) -> int:
        text = first.time
        time_ms = message_time_ms(text, self._zone)
        if time_ms is None:
            key = self._partition
            raise NoMessageTime(
                f"the message with id {first.message_id} of partition {key} (topic {key.topic}) "
                + (f"has {text!r} for its time, which is not yyyyMMddHHmm" if text else "carries no time"),
                partition=str(key),
            )
        return time_ms // MINUTE_MS

    @property
    def _doing(self) -> str:
        return f"looking for a time in partition {self._partition}"
