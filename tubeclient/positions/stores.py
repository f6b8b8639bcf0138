"""What looks have shown of stores: where their messages begin, and how they gained partitions."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from tubeclient.errors import PartitionOccupied
from tubeclient.flows.data_probe import DataProbe
from tubeclient.flows.read_session import ReaderNames
from tubeclient.keys import BrokerInfo, PartitionKey, StoreBounds, StoreFiles, StoreKey
from tubeclient.net.pool import ConnectionPool
from tubeclient.net.runner import FlowRunner

DATA_UNKNOWN = -1
"""`data_min` of a store if its broker does not report over HTTP whether data expired."""

_PROBE_AGAIN_SECONDS = 30.0
"""How long a first offset counts in that case."""

_AT_ONCE = 16
"""How many stores are looked into at once. A look is a row of short requests."""


class StoreGrowth(NamedTuple):
    """How a store gained partitions between looks, and what that proves of where a new partition's messages begin.

    All partitions of a store share one index, so nearly all of the index may be before the first message of a partition
    that was added later. A broker's web page lists the partitions that it has. The broker takes no messages for others,
    and a master never lowers their number. The page takes that list first, and the stores' ends after it. So if a page
    does not list a partition, none of its messages lies before the end on the page before.
    """

    last_partition: int = -1
    """The highest partition id that the broker ever listed."""
    end: int | None = None
    """Where the store ended at the last look. None if the broker did not say."""
    ends: tuple[tuple[int, int], ...] = ()
    """(partition id, offset): partitions with higher ids were not there when the store ended there. Both rise."""

    def begin_of(self, partition_id: int) -> int | None:
        """An offset before which the partition has no message. None if none is proven."""
        return max((end for last, end in self.ends if last < partition_id), default=None)

    def after(self, files: StoreFiles) -> StoreGrowth:
        """The growth after one more look, at which the broker named these files. If it did not name the partitions, or
        the store ends earlier than before, nothing is proven any more."""
        if files.last_partition is None:
            return StoreGrowth(self.last_partition)
        last, end = max(self.last_partition, files.last_partition), files.index_bounds.max_offset
        if self.end is None or end < self.end:
            return StoreGrowth(last, end)
        return StoreGrowth(last, end, (*(known for known in self.ends if known[0] < last), (last, self.end)))


class _Known(NamedTuple):
    first: int
    data_min: int
    end: int
    """The end of the index when it was last seen."""
    probed_at: float


class FirstOffsets:
    """Finds the first offset of stores whose message is still there, under reader groups, and keeps it: data expires
    before the index does. It moves only forward, and only when data expires, unless a topic is created again. For
    several threads, but for one broker at most one at a time."""

    def __init__(self, pool: ConnectionPool, names: ReaderNames) -> None:
        self._pool = pool
        self._names = names
        self._known: dict[StoreKey, _Known] = {}

    def bounds(
        self,
        broker: BrokerInfo,
        stores: Mapping[StoreKey, Sequence[PartitionKey]],
        files: Mapping[StoreKey, StoreFiles],
    ) -> dict[StoreKey, StoreBounds]:
        """The bounds of those of `broker`'s stores with these partitions whose files it names.

        Asks nothing if no data expired since the last call, or ever. Raises the error of a look.
        """
        due = [store for store in files if self._is_due(store, files[store])]
        if due:
            with ThreadPoolExecutor(min(_AT_ONCE, len(due)), "tubeclient-first-offsets") as workers:
                list(workers.map(lambda store: self._search(broker, stores[store], files[store]), due))
        return {store: self._bounds(store, files[store]) for store in files}

    def _is_due(self, store: StoreKey, files: StoreFiles) -> bool:
        known, end = self._known.get(store), files.index_bounds.max_offset
        if known is not None and (end < known.end or DATA_UNKNOWN < files.data_min < known.data_min):
            del self._known[store]  # its topic was created again, or it lost its tail
            known = None
        if known is None:
            return files.data_min != 0
        self._known[store] = known._replace(end=end)
        if files.data_min == DATA_UNKNOWN:
            return time.monotonic() - known.probed_at >= _PROBE_AGAIN_SECONDS
        return files.data_min not in (0, known.data_min)

    def _bounds(self, store: StoreKey, files: StoreFiles) -> StoreBounds:
        known, (low, high) = self._known.get(store), files.index_bounds
        first = low if known is None or not files.data_min else max(low, known.first)
        return StoreBounds(min(first, high), high)

    def _search(self, broker: BrokerInfo, partitions: Sequence[PartitionKey], files: StoreFiles) -> None:
        store, (low, high) = partitions[0].store, files.index_bounds
        known = self._known.get(store)
        if known is not None:
            low = max(low, known.first)
        now, runner = time.monotonic(), FlowRunner(self._pool)
        probe = DataProbe(broker, partitions, self._names)
        try:
            first = runner.run(probe.first(StoreBounds(low, high)))
            self._known[store] = _Known(first, files.data_min, high, now)
        except PartitionOccupied:
            if files.data_min != DATA_UNKNOWN:
                raise
            # Nothing says that data expired; readers report missing data themselves.
        finally:
            runner.run(probe.release())
