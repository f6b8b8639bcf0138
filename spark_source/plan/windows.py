"""The windows of the stores' indexes that a batch reads, and how a row limit is shared among them: pure functions.

The partitions of a store share one index, and partitions with the same offset share a window that begins there. Some
may lag behind: a partition added to a store in use begins at the store's first offset, unless the store's end at that
time is known. Each stretch between two positions is a window of its own, so that no partition waits for another. The
last window, from the foremost partitions to the store's end, gets new messages. An index entry is one message of one
partition, so the windows' entries are an upper bound of the rows; lagging partitions pass entries again that others
have passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from tubeclient.keys import INDEX_ENTRY_BYTES, StoreBounds, StoreKey

__all__ = ["StoreWindows", "share_rows", "window_ends"]

_Sharer = TypeVar("_Sharer", StoreKey, tuple[StoreKey, int], int)
"""Who gets a share: a store, a window of its index, or a node."""


def share_rows(behind: Mapping[_Sharer, int], max_rows: int | None, turn: int = 0) -> dict[_Sharer, int]:
    """Share `max_rows` in proportion to the rows that each sharer is behind.

    A sharer gets at most what it is behind, and at least one row if there are enough. The sum is `max_rows`, or
    everything if that is less. If there are fewer rows than sharers with something to read, consecutive sharers get one
    row each, starting at number `turn`. If `turn` is the number of rows shared out so far, all sharers take turns.
    """
    total = sum(behind.values())
    if max_rows is None or total <= max_rows:
        return dict(behind)
    shares = dict.fromkeys(behind, 0)
    waiting = [sharer for sharer, rows in behind.items() if rows]
    if max_rows <= len(waiting):
        everybody = sorted(behind)
        first = turn % len(everybody)
        in_turn = [sharer for sharer in everybody[first:] + everybody[:first] if behind[sharer]]
        return {**shares, **dict.fromkeys(in_turn[:max_rows], 1)}
    # One row for each, the rest in proportion to what remains. Integers only: the largest remainders get the rows left
    # by rounding down.
    spare, weights = max_rows - len(waiting), {sharer: behind[sharer] - 1 for sharer in waiting}
    all_weights = sum(weights.values())
    shares.update({sharer: 1 + spare * weight // all_weights for sharer, weight in weights.items()})
    by_remainder = sorted(weights, key=lambda sharer: (-(spare * weights[sharer] % all_weights), sharer))
    for sharer in by_remainder[: max_rows - sum(shares.values())]:
        shares[sharer] += 1
    return shares


class StoreWindows(NamedTuple):
    """The positions of a store's partitions, within its bounds."""

    levels: Sequence[int]
    """The partitions' offsets, distinct and rising; at least one."""
    end: int
    """The offset after the store's last."""

    @classmethod
    def of(cls, offsets: Iterable[int], held: StoreBounds) -> StoreWindows:
        """From the partitions' `offsets`, of which some may be outside of the store's bounds."""
        return cls(sorted({held.nearest(offset) for offset in offsets}), held.max_offset)

    @property
    def rows(self) -> int:
        """The entries of all windows."""
        return (self.end - self.levels[0]) // INDEX_ENTRY_BYTES

    @property
    def in_front(self) -> int:
        """The entries of the last window."""
        return (self.end - self.levels[-1]) // INDEX_ENTRY_BYTES

    def ends(self, in_front: int, rows: Mapping[int, int]) -> dict[int, int]:
        """Where the partitions at each level end if they get so many rows; `in_front` for the last level. Partitions
        that reach the next level have caught up, and end where those do."""
        end = self.levels[-1] + in_front * INDEX_ENTRY_BYTES
        ends = {self.levels[-1]: end}
        for level, following in zip(self.levels[-2::-1], self.levels[:0:-1], strict=True):
            until = level + rows[level] * INDEX_ENTRY_BYTES
            end = end if until == following else until
            ends[level] = end
        return ends


def window_ends(windows: Mapping[StoreKey, StoreWindows], max_rows: int | None) -> dict[StoreKey, dict[int, int]]:
    """Return where each store's windows end, by the level at which they begin.

    With `max_rows` all windows together have so many entries, or all that exist. Each window with something to read
    gets some or, if there are too few, takes turns. The front windows get one part of the rows, the lagging windows two
    parts for each lagging window of the store that has most. So lagging partitions catch up whatever arrives, and then
    all continue together. What one part does not need goes to the other. Each part is shared in proportion to what is
    left to read.
    """
    in_front = {store: of_store.in_front for store, of_store in windows.items()}
    lagging = {
        (store, level): (following - level) // INDEX_ENTRY_BYTES
        for store, of_store in windows.items()
        for level, following in zip(of_store.levels, of_store.levels[1:], strict=False)
    }
    if max_rows is not None:
        # Rows move one level each, so these sums count the rows read. Turns depend on them.
        turn_in_front = sum(of_store.levels[-1] for of_store in windows.values()) // INDEX_ENTRY_BYTES
        turn_lagging = sum(level for _, level in lagging) // INDEX_ENTRY_BYTES
        turn = turn_in_front + turn_lagging
        part = 1 + 2 * max((len(of_store.levels) - 1 for of_store in windows.values()), default=0)
        least_in_front = (turn + max_rows) // part - turn // part
        rows = min(sum(in_front.values()), max(least_in_front, max_rows - sum(lagging.values())))
        in_front = share_rows(in_front, rows, turn_in_front)
        lagging = share_rows(lagging, max_rows - rows, turn_lagging)
    return {
        store: of_store.ends(in_front[store], {level: lagging[store, level] for level in of_store.levels[:-1]})
        for store, of_store in windows.items()
    }
