"""Which index entry is the first that still has its message, found by looking at some of them.

Brokers drop old segments of the index and of the data each by its own age, so the oldest entries may have no message
any more; readers pass over them in silence. Entries say nothing about that, but messages do: a look is the first
message of one partition from an entry on, as long as the broker walks for one answer. Where no partition of the store
has a message, there is no data. Where one has, the place of that message is found by looking from later entries, as
long as it stays the first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tubeclient.flows.effects import Flow
from tubeclient.keys import INDEX_ENTRY_BYTES, StoreBounds

__all__ = ["Look", "Seen", "first_with_data", "has_data_before"]

_STEP_BACK = 100 * INDEX_ENTRY_BYTES


class Seen(NamedTuple):
    """What a partition has from an offset on."""

    message_id: int | None
    """The first message; None: there is none before `end`."""
    end: int
    """How far the broker looked. With a message: the last offset that the message can have."""


Look = Callable[[int, int, int], Flow[Seen]]
"""(number of the partition in its store's list, from, limit): look until there is a message or `limit` is reached, and
for one answer of the broker at least.
"""


def has_data_before(look: Look, partitions: int, offset: int) -> Flow[bool]:
    """Whether a message just before `offset` is there: then those behind it are. False says nothing."""
    start = max(0, offset - _STEP_BACK)
    if start == offset:
        return False
    for partition in range(partitions):
        first = yield from look(partition, start, offset)
        if first.message_id is not None and not (yield from _stays_first(look, partition, first, offset)):
            return True
    return False


def first_with_data(look: Look, partitions: int, bounds: StoreBounds, enough: int = -1) -> Flow[int]:
    """The first offset within the index's `bounds` with a message, `bounds.max_offset` where none has any.

    Where that is `enough` or smaller, any offset is returned that it does not exceed: fewer looks may do.
    """
    low, high = bounds  # before low nothing has data; high has some, or is the end
    at = low
    while enough < high and low < high:
        seen = yield from _any(look, partitions, at)
        if seen.message_id is None:
            low = max(low, seen.end)
            at = _between(low, high)
        elif at == low:
            return (yield from _first_place(look, partitions, low, high, enough))
        else:
            at = low if seen.end >= high else _between(low, seen.end)
            high = min(high, seen.end)
    return high


def _any(look: Look, partitions: int, at: int) -> Flow[Seen]:
    """A message of whatever partition, as near as one answer shows."""
    ends = []
    for partition in range(partitions):
        seen = yield from look(partition, at, at)
        if seen.message_id is not None:
            return seen
        ends.append(seen.end)
    return Seen(None, min(ends))


def _first_place(look: Look, partitions: int, low: int, high: int, enough: int) -> Flow[int]:
    """The place of the first message from `low` on, of all partitions, or `high` where there is none before that."""
    for partition in range(partitions):
        if high <= max(low, enough):
            break
        first = yield from look(partition, low, high)
        if first.message_id is None:
            continue
        begin, end = low, min(first.end, high)
        if end == low:
            return low
        if (yield from _stays_first(look, partition, first, end)):
            high = end  # its place, or one behind that of another partition's
            continue
        while end - begin > INDEX_ENTRY_BYTES:
            middle = _between(begin, end)
            if (yield from _stays_first(look, partition, first, middle)):
                begin = middle
            else:
                end = middle
        high = begin
    return high


def _stays_first(look: Look, partition: int, first: Seen, offset: int) -> Flow[bool]:
    """Whether the message seen from an earlier offset lies at `offset` or behind it."""
    if first.end < offset:
        return False
    seen = yield from look(partition, offset, first.end + INDEX_ENTRY_BYTES)
    return seen.message_id == first.message_id


def _between(low: int, high: int) -> int:
    return low + (high - low) // (2 * INDEX_ENTRY_BYTES) * INDEX_ENTRY_BYTES
