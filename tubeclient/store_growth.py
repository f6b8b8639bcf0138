"""How stores gain partitions while somebody looks: what is proven of where a new partition's messages begin.

All partitions of a store share one index, so nearly all of it may lie before the first message of a partition that was
added later. A broker's web page lists the partitions that it has, takes no message for others, and a master never
lowers their number. The page is made of that list first and of the stores' ends then. So of a partition that a page
does not list, nothing lies before the end on the page before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tubeclient.keys import StoreFiles, StoreKey

__all__ = ["StoreGrowth", "grown"]


class StoreGrowth(NamedTuple):
    """What the looks at a store have shown."""

    last_partition: int
    """The highest partition id that its broker ever listed."""
    end: int | None
    """Where the store ended at the last look; None where the broker did not say."""
    ends: tuple[tuple[int, int], ...] = ()
    """(partition id, offset): those behind this one were not there when the store ended so. Both rise."""

    def begin_of(self, partition_id: int) -> int | None:
        """An offset that no message of the partition lies before; None where nothing is proven."""
        return max((end for last, end in self.ends if last < partition_id), default=None)

    def after(self, files: StoreFiles | None) -> StoreGrowth:
        """The same after one more look, at which the broker told of these files. A store that was not told of, or
        ends before where it did, may have been anywhere meanwhile: all proofs are off.
        """
        if files is None or files.last_partition is None:
            return StoreGrowth(self.last_partition, None)
        last, end = max(self.last_partition, files.last_partition), files.index_bounds.max_offset
        if self.end is None or end < self.end:
            return StoreGrowth(last, end)
        return StoreGrowth(last, end, (*(one for one in self.ends if one[0] < last), (last, self.end)))


_UNSEEN = StoreGrowth(-1, None)


def grown(before: Mapping[StoreKey, StoreGrowth], files: Mapping[StoreKey, StoreFiles]) -> dict[StoreKey, StoreGrowth]:
    """The growth of a broker's stores after a look that told of `files`."""
    return {store: before.get(store, _UNSEEN).after(files.get(store)) for store in {*before, *files}}
