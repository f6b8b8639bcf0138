"""How stores gain partitions between looks, and what that proves of where a new partition's messages begin.

All partitions of a store share one index, so nearly all of the index may be before the first message of a partition
that was added later. A broker's web page lists the partitions that it has. The broker takes no messages for others, and
a master never lowers their number. The page takes that list first, and the stores' ends after it. So if a page does not
list a partition, none of its messages lies before the end on the page before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tubeclient.keys import StoreFiles, StoreKey


class StoreGrowth(NamedTuple):
    """What looks have shown of a store."""

    last_partition: int
    """The highest partition id that the broker ever listed."""
    end: int | None
    """Where the store ended at the last look. None if the broker did not say."""
    ends: tuple[tuple[int, int], ...] = ()
    """(partition id, offset): partitions with higher ids were not there when the store ended there. Both rise."""

    def begin_of(self, partition_id: int) -> int | None:
        """An offset before which the partition has no message. None if none is proven."""
        return max((end for last, end in self.ends if last < partition_id), default=None)

    def after(self, files: StoreFiles | None) -> StoreGrowth:
        """The growth after one more look, at which the broker named these files. If it did not name them, or the store
        ends earlier than before, nothing is proven any more.
        """
        if files is None or files.last_partition is None:
            return StoreGrowth(self.last_partition, None)
        last, end = max(self.last_partition, files.last_partition), files.index_bounds.max_offset
        if self.end is None or end < self.end:
            return StoreGrowth(last, end)
        return StoreGrowth(last, end, (*(one for one in self.ends if one[0] < last), (last, self.end)))


_UNSEEN = StoreGrowth(-1, None)


def grown(before: Mapping[StoreKey, StoreGrowth], files: Mapping[StoreKey, StoreFiles]) -> dict[StoreKey, StoreGrowth]:
    """The growth of a broker's stores after a look that found `files`."""
    return {store: before.get(store, _UNSEEN).after(files.get(store)) for store in {*before, *files}}
