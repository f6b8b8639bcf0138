"""Finds the index entry of a corrupt message: a fetch gives the offset of the pack, not of its messages."""

from __future__ import annotations

from collections.abc import Sequence

from tubeclient.errors import CorruptMessage, NothingToRead, TubeError
from tubeclient.flows.effects import Flow, Sleep
from tubeclient.flows.stay import Stay
from tubeclient.keys import INDEX_ENTRY_BYTES, OffsetRange, PartitionKey

__all__ = ["corrupt_message", "counted_place", "find_place"]

_NOT_FOUND = 404
_LOOKS = 50
_PAUSE_MS = 50.0


def corrupt_message(place: OffsetRange, what: object) -> CorruptMessage:
    """The error for the corrupt message at `place`."""
    left_out = place.max_messages - 1
    others = f", which leaves out at most {left_out} others" if left_out else ""
    return CorruptMessage(
        f"partition {place.partition}, offsets [{place.start}, {place.end}): {what}. Read again: it may have been "
        "damaged in transit. If the error comes again, the message was sent so or is damaged on the broker's disk. "
        f"Then read this partition up to offset {place.start} (endingOffsets of a batch read), and from offset "
        f"{place.end} (startingOffsets, with a new checkpoint if there is one){others}",
        number=what.number if isinstance(what, CorruptMessage) else None,
    )


def counted_place(partition: PartitionKey, start: int, end: int, messages: int, number: int) -> OffsetRange:
    """The smallest range that contains message `number`, from 0, of a pack of so many messages: each has an index
    entry."""
    behind = messages - number - 1
    return OffsetRange(partition, start + number * INDEX_ENTRY_BYTES, end - behind * INDEX_ENTRY_BYTES)


def find_place(stay: Stay, ids: Sequence[int], number: int, counted: OffsetRange, context: str) -> Flow[OffsetRange]:
    """The index entry of message `number` of the pack with these `ids`, within its `counted_place`; `counted_place`
    itself if the broker cannot tell.

    As long as the offset is not past the message, the first message from the offset on is this one or an earlier one.
    Moves the reader.
    """
    not_behind = frozenset(ids[: number + 1])
    first, last = counted.start, counted.end - INDEX_ENTRY_BYTES
    try:
        while first < last:
            middle = first + (last - first + INDEX_ENTRY_BYTES) // (2 * INDEX_ENTRY_BYTES) * INDEX_ENTRY_BYTES
            if (yield from _first_id(stay, middle, last, context)) in not_behind:
                first = middle
            else:
                last = middle - INDEX_ENTRY_BYTES
    except TubeError:
        return counted
    return OffsetRange(counted.partition, first, last + INDEX_ENTRY_BYTES)


def _first_id(stay: Stay, offset: int, last: int, context: str) -> Flow[int | None]:
    """The id of the first message from `offset` on; None if there is none up to `last`."""
    answer = yield from stay.seek(offset, context)
    if answer.currOffset == offset:
        for _ in range(_LOOKS):
            response = yield from stay.receive((yield from stay.send_fetch()))
            if response.errCode == _NOT_FOUND:
                start, _ = yield from stay.commit(context)
                yield Sleep(_PAUSE_MS)
            else:
                stay.checked(response, context)
                start = response.currOffset
                if response.messages.messageId:
                    found: int = response.messages.messageId[0]
                    return found
            if start > last:
                return None
    raise NothingToRead(_NOT_FOUND, f"the message at {offset} cannot be determined", context=context)
