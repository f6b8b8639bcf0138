"""The search for the place in an index where the messages of a minute begin.

A look at an entry finds the time of the partition's first message at or after it. The search keeps two entries. A look
at the first one found an older message; a look at the second one found none, or one that is not older. It looks between
them until they are neighbours. So the message just before the found place is older than the minute, and the one just
after it is not, whatever the order of the times. If times are in order, there is only one such place.

The next look does not go to the middle. It goes to the entry between the two whose number has the most trailing zero
bits, as in a trie. So looks go to the same entries as long as the answers are the same, however much the index has
grown or lost meanwhile. Even if times are out of order, a later search finds the same place if nothing older has come
and nothing else has expired, and a search for a later minute finds no earlier place.
"""

from __future__ import annotations

from tubeclient.keys import INDEX_ENTRY_BYTES, StoreBounds


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
    def to_look_at(self) -> int | None:
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

    def saw(self, looked_at: int, seen_from: int, minute: int) -> None:
        """The partition's first message at or after `looked_at` is of `minute`, at or after `seen_from`."""
        if minute < self._minute:
            self._older = min(_number(seen_from), self._rest - 1)
        else:
            self._rest, self._matched = _number(looked_at), True

    def saw_nothing(self, looked_at: int) -> None:
        """Record a look: from `looked_at` up to `limit` there is no message of the partition."""
        self._rest = _number(looked_at)

    def saw_only_bad(self, looked_at: int) -> None:
        """No good message behind them is older, so they are not."""
        self._rest, self._matched = _number(looked_at), True

    def expired(self, min_offset: int) -> None:
        """Data before `min_offset` has expired. It counts as older."""
        self._older = max(self._older, min(min_offset // INDEX_ENTRY_BYTES, self._end - 1))
        if self._rest <= self._older:  # the position found so far has expired, too
            self._rest, self._matched = self._end, False


class FirstMinute:
    """One look: `found` is the minute of a partition's first message within `bounds`; None if it has none there."""

    def __init__(self, bounds: StoreBounds) -> None:
        self._begin, self.limit = bounds
        self.found: int | None = None

    @property
    def to_look_at(self) -> int | None:
        return self._begin if self._begin < self.limit else None

    def saw(self, looked_at: int, seen_from: int, minute: int) -> None:
        self.found, self._begin = minute, self.limit

    def saw_nothing(self, looked_at: int) -> None:
        self._begin = self.limit

    saw_only_bad = saw_nothing

    def expired(self, min_offset: int) -> None:
        self._begin = min_offset


MinuteSearch = TimeSearch | FirstMinute


def _offset(number: int) -> int:
    return (number - 1) * INDEX_ENTRY_BYTES


def _number(offset: int) -> int:
    return offset // INDEX_ENTRY_BYTES + 1
