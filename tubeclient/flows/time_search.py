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

from typing import Protocol, TypeVar

from tubeclient.keys import INDEX_ENTRY_BYTES, StoreBounds

__all__ = ["FirstMinute", "MinuteSearch", "RangeSearch", "TimeSearch"]

_IN_VAIN = 2

FoundT_co = TypeVar("FoundT_co", covariant=True)


class MinuteSearch(Protocol[FoundT_co]):
    """What looks at messages tell their result to. Minutes are since 1970."""

    @property
    def to_look_at(self) -> int | None:
        """The offset to look at next. None if the search is over."""

    @property
    def limit(self) -> int:
        """How far to look. From this offset on, nothing more needs to be known."""

    @property
    def found(self) -> FoundT_co:
        """The result, once the search is over."""

    def saw(self, looked_at: int, seen_from: int, minute: int, messages: int) -> None:
        """The partition's first message at or after `looked_at` is of `minute`, at or after `seen_from`. The look
        fetched so many of its `messages`.
        """

    def saw_nothing(self, looked_at: int) -> None:
        """Record a look: from `looked_at` up to `limit` there is no message of the partition."""

    def saw_only_bad(self, looked_at: int) -> None:
        """Record a look: all messages of the partition from `looked_at` up to `limit` are bad."""

    def expired(self, min_offset: int) -> None:
        """Data before `min_offset` has expired."""


class FirstMinute:
    """One look: `found` is the minute of a partition's first message within `bounds`; None if it has none there."""

    def __init__(self, bounds: StoreBounds) -> None:
        self._begin, self.limit = bounds
        self.found: int | None = None

    @property
    def to_look_at(self) -> int | None:
        return self._begin if self._begin < self.limit else None

    def saw(self, looked_at: int, seen_from: int, minute: int, messages: int) -> None:
        self.found, self._begin = minute, self.limit

    def saw_nothing(self, looked_at: int) -> None:
        self._begin = self.limit

    saw_only_bad = saw_nothing

    def expired(self, min_offset: int) -> None:
        self._begin = min_offset


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

    def saw(self, looked_at: int, seen_from: int, minute: int, messages: int) -> None:
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


class _RoughSearch(TimeSearch):
    """A search that ends when the two entries are so near that to read what is between costs no more than a look.

    It needs to find the same place never again. So it looks where the minute is to be expected: at the first entry and
    near the last one, and then between two entries in proportion to their minutes. Where that brings it no nearer, as
    with messages that came in bursts, it goes to the middle.
    """

    def __init__(self, bounds: StoreBounds, minute: int) -> None:
        super().__init__(bounds, minute)
        self._first = bounds.min_offset
        self._near = 1
        """The search is over when the place is one of so many entries."""
        self._older_minute: int | None = None
        self._rest_minute: int | None = None
        self._in_vain = 0
        """How many looks in proportion left more than half of the entries."""

    @property
    def to_look_at(self) -> int | None:
        low, high = self._older, self._rest
        if high - 1 - low < self._near:
            return None
        if self._older_minute is None:
            return _offset(low + 1)
        if self._in_vain >= _IN_VAIN:
            return _offset((low + high) // 2)
        if self._rest_minute is None:
            return _offset(max(low + 1, high - self._near))
        # A minute's messages are half a minute behind its beginning on average.
        share = (self._minute - self._older_minute - 0.5) / (self._rest_minute - self._older_minute)
        place = low + int((high - low) * share)
        # On the side that is known worse, as the place is to be between two looks.
        place += -self._near // 3 if place - low > high - place else self._near // 3
        return _offset(min(max(place, low + 1), high - 1))

    def saw(self, looked_at: int, seen_from: int, minute: int, messages: int) -> None:
        # One more look costs as much as to read what it fetches.
        self._near = 2 * messages
        before = self._rest - self._older
        if not self._older < _number(looked_at) < self._rest:
            return
        in_proportion = self._older_minute is not None and self._rest_minute is not None
        super().saw(looked_at, seen_from, minute, messages)
        if minute < self._minute:
            self._older_minute = minute
        else:
            self._rest_minute = minute
        halved = 2 * (self._rest - self._older) <= before
        self._in_vain = 0 if halved else self._in_vain + in_proportion

    def saw_nothing(self, looked_at: int) -> None:
        if self._older < _number(looked_at) < self._rest:
            super().saw_nothing(looked_at)
            self._in_vain = _IN_VAIN

    def expired(self, min_offset: int) -> None:
        super().expired(min_offset)
        self._older_minute = None
        if not self._matched:
            self._rest_minute = None

    @property
    def before(self) -> int:
        """A place before the exact one. The first message there is older, unless `bounds` begin there."""
        return max(self._first, _offset(self._older))


class RangeSearch:
    """Finds a place before the messages of minute `first`, and one behind those before minute `end`, within `bounds`.
    About two fetches read what is between such a place and the exact one.

    `found` is None for a minute that is None, and for `end` also if no message is so late. The first message at or
    behind the place before is older than `first`, unless `bounds` begin there. The first one at or behind the other
    place is not older than `end`. A look for one of them is one for the other too.
    """

    def __init__(self, bounds: StoreBounds, first: int | None, end: int | None) -> None:
        self._first = None if first is None else _RoughSearch(bounds, first)
        self._end = None if end is None else _RoughSearch(bounds, end)
        self._both = [one for one in (self._first, self._end) if one is not None]

    @property
    def _looking(self) -> _RoughSearch:
        return next((one for one in self._both if one.to_look_at is not None), self._both[-1])

    @property
    def to_look_at(self) -> int | None:
        return self._looking.to_look_at if self._both else None

    @property
    def limit(self) -> int:
        return self._looking.limit

    @property
    def found(self) -> tuple[int | None, int | None]:
        return (
            None if self._first is None else self._first.before,
            None if self._end is None else self._end.found,
        )

    def saw(self, looked_at: int, seen_from: int, minute: int, messages: int) -> None:
        for one in self._both:
            one.saw(looked_at, seen_from, minute, messages)

    def saw_nothing(self, looked_at: int) -> None:
        # The other one may have to look farther, and then it has seen an older message behind: this tells it nothing.
        for one in self._both:
            one.saw_nothing(looked_at)

    def saw_only_bad(self, looked_at: int) -> None:
        self._looking.saw_only_bad(looked_at)

    def expired(self, min_offset: int) -> None:
        for one in self._both:
            one.expired(min_offset)


def _offset(number: int) -> int:
    return (number - 1) * INDEX_ENTRY_BYTES


def _number(offset: int) -> int:
    return offset // INDEX_ENTRY_BYTES + 1
