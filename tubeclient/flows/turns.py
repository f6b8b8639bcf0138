"""Whose turn it is. Idle ones wait in a queue, those at work are kept in the order in which they began. No clock."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Turns(Generic[T]):
    """Each item waits for its turn, has a fetch, has an unconfirmed pack, or none of these. Times in ms of one
    clock."""

    def __init__(self) -> None:
        self.fetching: dict[T, None] = {}
        """Those with an open fetch, the oldest first."""
        self.delivered: dict[T, None] = {}
        """Partitions with an unconfirmed pack, oldest first."""
        self.committing: set[T] = set()
        """Those with an open commit. No answer to a fetch is taken before the commit's."""
        self._waiting: dict[T, int] = {}
        """The number of each one's newest queue entry; older entries are stale."""
        self._ready: deque[tuple[int, T]] = deque()
        self._resting: list[tuple[float, int, T]] = []
        self._numbers = itertools.count(1)

    def leave(self, one: T) -> None:
        """The item neither waits nor works."""
        self._waiting.pop(one, None)
        self.fetching.pop(one, None)
        self.delivered.pop(one, None)

    def wait(self, one: T, rest_until_ms: float = 0.0) -> None:
        """The item queues behind the others, from `rest_until_ms` on; 0 for at once. If this is interrupted, it queues,
        or is where it was."""
        number = next(self._numbers)
        if rest_until_ms > 0:
            heapq.heappush(self._resting, (rest_until_ms, number, one))
        else:
            self._ready.append((number, one))
        self._waiting[one] = number
        self.fetching.pop(one, None)
        self.delivered.pop(one, None)

    def fetch(self, one: T) -> None:
        """The item has a fetch."""
        self.leave(one)
        self.fetching[one] = None

    def deliver(self, one: T) -> None:
        """The item has an unconfirmed pack."""
        self.leave(one)
        self.delivered[one] = None

    def next(self, now_ms: float, usable: Callable[[T], bool]) -> T | None:
        """The next item, of those that are usable now. It keeps its turn until its state changes."""
        self._end_rests(now_ms)
        for _ in range(len(self._ready)):
            number, one = self._ready[0]
            if self._waiting.get(one) != number:
                self._ready.popleft()
            elif usable(one):
                return one
            else:
                self._ready.rotate(-1)
        return None

    def next_rest_end_ms(self, now_ms: float) -> float | None:
        """When the next resting item may work again; None if none rests."""
        self._end_rests(now_ms)
        return self._resting[0][0] if self._resting else None

    def _end_rests(self, now_ms: float) -> None:
        while self._resting and self._resting[0][0] <= now_ms:
            _, number, one = self._resting[0]
            self._ready.append((number, one))  # first: if this is interrupted, two entries do no harm
            heapq.heappop(self._resting)
