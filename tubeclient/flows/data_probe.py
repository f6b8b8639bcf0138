"""What the partitions of a store have from an offset on. It registers there and fetches, under a reader group since
every registration moves its group's position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from tubeclient.flows.effects import Flow
from tubeclient.flows.read_session import ReaderNames, ReadSession, RetryPolicy
from tubeclient.keys import INDEX_ENTRY_BYTES, BrokerInfo, PartitionKey, StoreBounds

_STEP_BACK = 100 * INDEX_ENTRY_BYTES


class Seen(NamedTuple):
    """What a look found."""

    message_id: int | None
    """The first message. None if there is none before `end`."""
    end: int
    """How far the broker looked; with a message, the last offset that it can have."""


Probe = Callable[[int, int, int], Flow[Seen]]
"""(number of the partition in its store's list, from, limit): look until there is a message or `limit` is reached, but
for at least one answer of the broker."""


def has_data_before(probe: Probe, partitions: int, offset: int) -> Flow[bool]:
    """Whether a message just before `offset` is there. Then all after it are, too. False says nothing."""
    start = max(0, offset - _STEP_BACK)
    if start == offset:
        return False
    for partition in range(partitions):
        first = yield from probe(partition, start, offset)
        if first.message_id is not None and not (yield from _stays_first(probe, partition, first, offset)):
            return True
    return False


def first_with_data(probe: Probe, partitions: int, bounds: StoreBounds, enough: int = -1) -> Flow[int]:
    """The first offset within the index's `bounds` that has a message, `bounds.max_offset` if there is none.

    If that offset is at most `enough`, any offset from there to `enough` may be returned, which takes fewer looks.
    """
    low, high = bounds  # no data before low; data at high, or the end
    at = low
    while enough < high and low < high:
        seen = yield from _any(probe, partitions, at)
        if seen.message_id is None:
            low = max(low, seen.end)
            at = _between(low, high)
        elif at == low:
            return (yield from _first_place(probe, partitions, low, high, enough))
        else:
            at = low if seen.end >= high else _between(low, seen.end)
            high = min(high, seen.end)
    return high


def _any(probe: Probe, partitions: int, at: int) -> Flow[Seen]:
    """A message of any partition, as near as one answer shows."""
    ends = []
    for partition in range(partitions):
        seen = yield from probe(partition, at, at)
        if seen.message_id is not None:
            return seen
        ends.append(seen.end)
    return Seen(None, min(ends))


def _first_place(probe: Probe, partitions: int, low: int, high: int, enough: int) -> Flow[int]:
    """The place of the first message of all partitions from `low` on, or `high` if there is none before that."""
    for partition in range(partitions):
        if high <= max(low, enough):
            break
        first = yield from probe(partition, low, high)
        if first.message_id is None:
            continue
        begin, end = low, min(first.end, high)
        if end == low:
            return low
        if (yield from _stays_first(probe, partition, first, end)):
            high = end  # its entry, or one after another partition's
            continue
        while end - begin > INDEX_ENTRY_BYTES:
            middle = _between(begin, end)
            if (yield from _stays_first(probe, partition, first, middle)):
                begin = middle
            else:
                end = middle
        high = begin
    return high


def _stays_first(probe: Probe, partition: int, first: Seen, offset: int) -> Flow[bool]:
    """Whether the message that was seen from an earlier offset lies at or after `offset`."""
    if first.end < offset:
        return False
    seen = yield from probe(partition, offset, first.end + INDEX_ENTRY_BYTES)
    return seen.message_id == first.message_id


def _between(low: int, high: int) -> int:
    return low + (high - low) // (2 * INDEX_ENTRY_BYTES) * INDEX_ENTRY_BYTES


class DataProbe:
    """Looks into one store of `broker`. `partitions` are all partitions of the store, first those likely to have much.

    Methods raise the StatusError of a refusal, PartitionOccupied if a partition is read in all groups of `names`, and
    the error of a call. Run `release()` afterwards, however they ended.
    """

    def __init__(self, broker: BrokerInfo, partitions: Iterable[PartitionKey], names: ReaderNames) -> None:
        self._broker = broker
        self._sessions = [ReadSession(broker, key, names) for key in partitions]
        self._doing = f"looking for the first data of store {self._sessions[0].partition.store}"

    def first(self, bounds: StoreBounds) -> Flow[int]:
        """The first offset within the index's `bounds` that has data."""
        return (yield from first_with_data(self._probe, len(self._sessions), bounds))

    def first_if_behind(self, offset: int, retries: RetryPolicy) -> Flow[tuple[int, int]]:
        """Where the index begins, and the first offset that has data, if that is after `offset`. Else both are some
        numbers up to `offset`. Faults are tried again as long as `retries` lasts.
        """
        return (yield from retries.run_flow(lambda: self._behind(offset), lambda: self._doing, *self._sessions))

    def release(self) -> Flow[None]:
        """Release the partitions, best effort."""
        for session in self._sessions:
            yield from session.leave()

    def _behind(self, offset: int) -> Flow[tuple[int, int]]:
        if (yield from has_data_before(self._probe, len(self._sessions), offset)):
            return 0, offset
        answer = yield from self._sessions[0].seek(0, self._doing)
        bounds = StoreBounds(answer.currOffset, answer.maxOffset)
        first = yield from first_with_data(self._probe, len(self._sessions), bounds, offset)
        return bounds.min_offset, first

    def _probe(self, number: int, offset: int, limit: int) -> Flow[Seen]:
        found = yield from self._sessions[number].probe(offset, limit, self._doing)
        if found.messages is None:
            return Seen(None, max(found.position, offset + INDEX_ENTRY_BYTES))
        return Seen(found.messages.ids[0], found.position - len(found.messages.ids) * INDEX_ENTRY_BYTES)
