"""Where in an index the messages of a minute begin, found by looking at some of its entries.

A look at an entry finds the time of the partition's first message there or behind it. The search keeps two entries, a
look at the one of which found an older message, a look at the other none or one that is not older, and looks between
them until they are neighbours. So whatever the times are, the message just before the place that is found is older
than the minute sought, and the one just behind it is not. Where times are in order, that is the only such place.

Looks go to the entry between the two whose number has the most trailing zero bits, as in a trie, and not to the middle:
so they go to the same entries as long as the answers are the same, however much the index has grown or lost meanwhile.
Hence, in disorder too, a later search finds the same place if nothing older has come and nothing else has expired, and
a search for a later minute finds no earlier place.
"""

from __future__ import annotations

from tubeclient.keys import INDEX_ENTRY_BYTES, StoreBounds

__all__ = ["TimeSearch"]


class TimeSearch:
    """One search of the index entries within `bounds`, for `minute` in minutes since 1970."""

    def __init__(self, bounds: StoreBounds, minute: int) -> None:
        self._minute = minute
        # Entries by their number, from 1 on: so 0 stands before all of them.
        self._end = bounds.max_offset // INDEX_ENTRY_BYTES + 1
        self._older = min(bounds.min_offset // INDEX_ENTRY_BYTES, self._end - 1)
        self._rest = self._end
        self._matched = False

    @property
    def to_look_at(self) -> int | None:
        """The offset to look at next; None where the search is over."""
        last = self._rest - 1
        if last == self._older:
            return None
        bits = (self._older ^ last).bit_length() - 1
        return _offset(last >> bits << bits)

    @property
    def limit(self) -> int:
        """How far to look: of what follows from this offset on, everything worth knowing is known."""
        return _offset(self._rest)

    @property
    def found(self) -> int | None:
        """When it is over: the offset sought, or None where no message is of the minute or later."""
        return self.limit if self._matched else None

    def saw(self, looked_at: int, seen_from: int, minute: int) -> None:
        """At `looked_at` or behind it the partition's first message is one of `minute`, and not before `seen_from`."""
        if minute < self._minute:
            self._older = min(_number(seen_from), self._rest - 1)
        else:
            self._rest, self._matched = _number(looked_at), True

    def saw_nothing(self, looked_at: int) -> None:
        """From `looked_at` up to `limit` there is no message of the partition."""
        self._rest = _number(looked_at)

    def expired(self, min_offset: int) -> None:
        """What lies before `min_offset` is gone; it counts as older."""
        self._older = max(self._older, min(min_offset // INDEX_ENTRY_BYTES, self._end - 1))
        if self._rest <= self._older:  # the place that was found so far is gone, too
            self._rest, self._matched = self._end, False


def _offset(number: int) -> int:
    return (number - 1) * INDEX_ENTRY_BYTES


def _number(offset: int) -> int:
    return offset // INDEX_ENTRY_BYTES + 1
