"""The first offset of a partition from a minute on, by the times that producers wrote on its messages.

Brokers map no time to an offset of a topic: their calls by time look into the history of groups. So the search looks at
messages. It registers at an offset, under a reader group since every registration moves its group's position, and
fetches. The first message of the answer is the partition's first one at or after that offset.

The search keeps two entries of the index. A look at the first one found an older message; a look at the second one
found none, or one that is not older. It looks between them until they are neighbours. So the message just before the
found place is older than the minute, and the one just after it is not, whatever the order of the times. If times are in
order, there is only one such place.

The next look does not go to the middle. It goes to the entry between the two whose number has the most trailing zero
bits, as in a trie. So looks go to the same entries as long as the answers are the same, however much the index has
grown or lost meanwhile. Even if times are out of order, a later search finds the same place if nothing older has come
and nothing else has expired, and a search for a later minute finds no earlier place.
"""

from __future__ import annotations

import random
from datetime import tzinfo
from functools import partial

from tubeclient.errors import CorruptMessage, NoMessageTime
from tubeclient.flows.effects import Flow
from tubeclient.flows.read_session import Probed, ReaderNames, ReadSession, RetryPolicy
from tubeclient.keys import INDEX_ENTRY_BYTES, BrokerInfo, PartitionKey, StoreBounds
from tubeclient.wire.message_time import MINUTE_MS, message_time_ms
from tubeclient.wire.messages import Message, checked_columns


class TimeSearch:
    """One search of the index entries within `bounds`, for `minute` in minutes since 1970."""

    def __init__(self, bounds: StoreBounds, minute: int) -> None:
        self._minute = minute
        # Entries are numbered from 1 on, so 0 is before all of them.
        self._end = bounds.max_offset // INDEX_ENTRY_BYTES + 1
        self._older = min(bounds.min_offset // INDEX_ENTRY_BYTES, self._end - 1)
        self._rest = self._end
        self._matched = False

    @property
    def next_offset(self) -> int | None:
        """The offset to look at next. None if the search is over."""
        last = self._rest - 1
        if last <= self._older:
            return None
        bits = (self._older ^ last).bit_length() - 1
        return _offset(last >> bits << bits)

    @property
    def limit(self) -> int:
        """How far to look. From this offset on, nothing more needs to be known."""
        return _offset(self._rest)

    @property
    def found(self) -> int | None:
        """The found offset, once the search is over. None if no message is of the minute or later."""
        return self.limit if self._matched else None

    def saw(self, probed_at: int, seen_from: int, minute: int) -> None:
        """The partition's first message at or after `probed_at` is of `minute`, at or after `seen_from`."""
        if minute < self._minute:
            self._older = min(_number(seen_from), self._rest - 1)
        else:
            self._rest, self._matched = _number(probed_at), True

    def saw_nothing(self, probed_at: int) -> None:
        """Record a probe: from `probed_at` up to `limit` there is no message of the partition."""
        self._rest = _number(probed_at)

    def expired(self, min_offset: int) -> None:
        """Data before `min_offset` has expired. It counts as older."""
        self._older = max(self._older, min(min_offset // INDEX_ENTRY_BYTES, self._end - 1))
        if self._rest <= self._older:  # the position found so far has expired, too
            self._rest, self._matched = self._end, False


def _offset(number: int) -> int:
    return (number - 1) * INDEX_ENTRY_BYTES


def _number(offset: int) -> int:
    return offset // INDEX_ENTRY_BYTES + 1


class TimeProbe:
    """Looks at the times of one partition's messages. `zone` is that of the producers' clocks.

    The flow `release()` releases the partition; run it afterwards, however the others ended. They raise NoMessageTime,
    CorruptMessage, DeadlineExceeded after `retry_limit_ms` without progress, and the StatusError of a refusal.
    """

    def __init__(
        self,
        broker: BrokerInfo,
        partition: PartitionKey,
        names: ReaderNames,
        rng: random.Random,
        *,
        zone: tzinfo,
        retry_limit_ms: float = 60_000,
    ) -> None:
        self._partition = partition
        self._zone = zone
        self._session = ReadSession(broker, partition, names)
        self._retries = RetryPolicy(broker, rng, retry_limit_ms)
        self._doing = f"looking for a time in partition {partition}"

    def find(self, bounds: StoreBounds, minute: int) -> Flow[int | None]:
        """The first offset within `bounds` from `minute` on, in minutes since 1970. None if no message is so late."""
        search = TimeSearch(bounds, minute)
        while (offset := search.next_offset) is not None:
            probe = partial(self._probe, offset, search.limit)
            seen, seen_minute = yield from self._retries.run_flow(probe, lambda: self._doing, self._session)
            if seen.begin > offset:
                search.expired(seen.begin)
            elif seen_minute is None:
                search.saw_nothing(offset)
            else:
                search.saw(offset, seen.start, seen_minute)
        return search.found

    def release(self) -> Flow[None]:
        """Give the partition back, best effort. Without that, it is free when its lease ends."""
        yield from self._session.leave()

    def _probe(self, offset: int, limit: int) -> Flow[tuple[Probed, int | None]]:
        """With the minute of the first message; None if there is no message."""
        seen = yield from self._session.probe(offset, limit, self._doing, self._retries)
        if seen.messages is None:
            return seen, None
        try:
            (first,) = map(Message, *checked_columns(seen.messages, 1))
        except CorruptMessage as error:
            raise CorruptMessage(f"{self._doing}: {error}. Use offsets instead of a time") from error
        return seen, self._minute_of(first)

    def _minute_of(self, first: Message) -> int:
        text = first.time
        time_ms = message_time_ms(text, self._zone)
        if time_ms is None:
            key = self._partition
            raise NoMessageTime(
                f"the message with id {first.message_id} of partition {key} (topic {key.topic}) "
                + (f"has the time {text!r}, which is not yyyyMMddHHmm" if text else "carries no time"),
                partition=str(key),
            )
        return time_ms // MINUTE_MS
