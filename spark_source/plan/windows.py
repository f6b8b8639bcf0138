"""The windows that a batch takes of the stores' indexes, and how a limit of rows is shared among them: pure functions.

The partitions of a store share one index, and those that stand at one offset share a window that begins there. Some may
lag behind: a partition that was added to a store in use begins at the store's first offset, unless it is known where
the store ended then. Each stretch from where
some partitions stand to where the next ones do is a window of its own, so that nobody waits for anybody; the last one,
from the partitions in front to the store's end, is where new messages come. An entry of the index is one message of one
partition, so the windows' entries are at most so many rows, though partitions that lag pass entries again that others
have passed before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from spark_source.plan.sharing import share_rows
from tubeclient.keys import INDEX_ENTRY_BYTES, StoreBounds, StoreKey

__all__ = ["StoreWindows", "clamped", "window_ends"]


def clamped(offset: int, held: StoreBounds) -> int:
    """The offset that a store holds nearest to `offset`."""
    return min(max(offset, held.min_offset), held.max_offset)


class StoreWindows(NamedTuple):
    """Where the partitions of a store stand, within what it holds."""

    levels: Sequence[int]
    """The offsets at which partitions stand, each once and rising; at least one."""
    end: int
    """The offset after the store's last."""

    @classmethod
    def of(cls, offsets: Iterable[int], held: StoreBounds) -> StoreWindows:
        """Of partitions that stand at `offsets`, some of them outside of what the store holds perhaps."""
        return cls(sorted({clamped(offset, held) for offset in offsets}), held.max_offset)

    @property
    def rows(self) -> int:
        """The entries of all windows."""
        return (self.end - self.levels[0]) // INDEX_ENTRY_BYTES

    @property
    def in_front(self) -> int:
        """The entries of the last window."""
        return (self.end - self.levels[-1]) // INDEX_ENTRY_BYTES

    def ends(self, in_front: int, rows: Mapping[int, int]) -> dict[int, int]:
        """Where those at each level end who get so many rows, `in_front` for the last level. Who comes to where the
        next ones stood has met them, and ends where they do.
        """
        end = self.levels[-1] + in_front * INDEX_ENTRY_BYTES
        ends = {self.levels[-1]: end}
        for level, following in zip(self.levels[-2::-1], self.levels[:0:-1], strict=True):
            until = level + rows[level] * INDEX_ENTRY_BYTES
            end = end if until == following else until
            ends[level] = end
        return ends


def window_ends(windows: Mapping[StoreKey, StoreWindows], max_rows: int | None) -> dict[StoreKey, dict[int, int]]:
    """Return where each store's windows end, by the level at which they begin.

    With `max_rows` all windows together have so many entries, or all that there are, and each with something to read
    has some or, where there are too few, has its turn. Those in front have a part of the rows of their own, and those
    who lag behind twice as much for each window that lags in any store: so they come nearer whatever arrives, and once
    they have met, all go on together. What one part does not need is the other's. Each part is shared in proportion to
    what there is to read.
    """
    in_front = {store: of_store.in_front for store, of_store in windows.items()}
    lagging = {
        (store, level): (following - level) // INDEX_ENTRY_BYTES
        for store, of_store in windows.items()
        for level, following in zip(of_store.levels, of_store.levels[1:], strict=False)
    }
    if max_rows is not None:
        # Rows move a level each: these sums count what was read, which is what taking turns goes by.
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
