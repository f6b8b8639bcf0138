"""Chooses the messages of one answer to a fetch.

The borders are TubeMQ's: entries of one partition that pass the filter, in order, until their records reach a number of
bytes (including the one that crosses it) or the scanned entries reach a budget (source: MsgFileStore.getMessages,
MessageStore).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from embedded_tubemq.storage.records import HEADER_BYTES, WIRE_PREFIX_BYTES

__all__ = ["FIRST_FETCH_BYTES", "LATER_FETCH_BYTES", "Pack", "choose_pack", "entry_budget"]

FIRST_FETCH_BYTES = 327_680
LATER_FETCH_BYTES = 524_288

_NOTHING = np.empty(0, np.int64)


class Pack(NamedTuple):
    """The chosen messages.

    Where their wire parts start and end in the data file, and how many index entries were read.
    """

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    entries_read: int
    data_end: int | None  # data file position after the last entry that has a record; None without one

    @property
    def empty(self) -> bool:
        """Whether nothing was chosen."""
        return not len(self.starts)


def entry_budget(partitions: int, *, filtered: bool) -> int:
    """Index entries that one fetch may scan, by the store's number of partitions."""
    budget = min(max(1000 * partitions, 8000), 13_500)
    return 3 * budget if filtered else budget


def choose_pack(
    entries: NDArray[Any], partition_id: int, tag_hashes: Sequence[int] | None, byte_limit: int, data_min: int = 0
) -> Pack:
    """Choose from index entries (`INDEX_DTYPE`); `tag_hashes` None means no filter.

    Entries with a record before the position `data_min` have no record any more; they are skipped silently.
    """
    count = len(entries)
    if not count or int(entries[count - 1]["position"]) < data_min:
        return Pack(_NOTHING, _NOTHING, count, None)
    # Compare in disk byte order: converting thousands of numbers takes several times as long.
    wanted = entries["partition"].view(np.int32) == np.array(partition_id, ">i4").view(np.int32)
    if int(entries[0]["position"]) < data_min:
        wanted &= entries["position"] >= data_min
    if tag_hashes is not None:
        wanted &= np.isin(entries["tag_hash"], np.asarray(tag_hashes, dtype=np.int64))
    rows = wanted.nonzero()[0]
    sizes = entries["size"][rows].astype(np.int64)
    # Count record sizes as TubeMQ does, so that packs hold as many messages as there.
    taken = int((sizes - WIRE_PREFIX_BYTES).cumsum().searchsorted(byte_limit)) + 1
    if taken <= len(rows):
        rows, sizes = rows[:taken], sizes[:taken]
        count = int(rows[-1]) + 1
    starts = entries["position"][rows].astype(np.int64)
    ends = starts + sizes
    starts += HEADER_BYTES
    last = entries[count - 1]
    return Pack(starts, ends, count, int(last["position"]) + int(last["size"]))
