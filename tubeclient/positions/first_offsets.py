"""Where the messages of stores begin. That is not where their index begins, since data expires before it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import NamedTuple

from tubeclient.errors import PartitionOccupied
from tubeclient.flows.data_look import DataLook
from tubeclient.flows.stay import ReaderNames
from tubeclient.keys import BrokerInfo, PartitionKey, StoreBounds, StoreFiles, StoreKey
from tubeclient.net.pool import ConnectionPool
from tubeclient.net.runner import FlowRunner
from tubeclient.settings import ClientSettings

NEVER_WRITTEN = StoreFiles(StoreBounds(0, 0), 0)
"""The files of a store that does not exist yet."""

DATA_UNKNOWN = -1
"""`data_min` of a store if its broker does not report over HTTP whether data expired."""

_LOOK_AGAIN_SECONDS = 30.0
"""How long a first offset counts in that case."""

_AT_ONCE = 16
"""How many stores are looked into at once. A look is a row of short requests."""


class _Known(NamedTuple):
    first: int
    data_min: int
    end: int
    """The end of the index when it was last seen."""
    looked_at: float

    def is_outdated(self, files: StoreFiles) -> bool:
        """Whether the store went back since: its topic was created again, or it lost its tail."""
        return files.index_bounds.max_offset < self.end or DATA_UNKNOWN < files.data_min < self.data_min


class FirstOffsets:
    """Finds the first offset of stores whose message is still there, under reader groups, and keeps it. It moves only
    when data expires, and only forward, unless a topic is created again. For several threads, but for one broker at
    most one at a time."""

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
        """The bounds of `broker`'s stores with these partitions, by the files that it names.

        Asks nothing if no data expired since the last call, or ever. Raises the error of a look.
        """
        now = time.monotonic()
        for store in stores:
            known = self._known.get(store)
            if known is not None and known.is_outdated(files[store]):
                del self._known[store]
            elif known is not None:
                self._known[store] = known._replace(end=files[store].index_bounds.max_offset)
        due = [(stores[store], files[store]) for store in stores if self._is_due(store, files[store], now)]
        if due:
            self._find(broker, due)
        return {store: self._bounds(store, files[store]) for store in stores}

    def _is_due(self, store: StoreKey, files: StoreFiles, now: float) -> bool:
        if not files.data_min:
            return False
        known = self._known.get(store)
        if known is None:
            return True
        if files.data_min == DATA_UNKNOWN:
            return now - known.looked_at >= _LOOK_AGAIN_SECONDS
        return known.data_min != files.data_min

    def _bounds(self, store: StoreKey, files: StoreFiles) -> StoreBounds:
        known, (low, high) = self._known.get(store), files.index_bounds
        first = low if known is None or not files.data_min else max(low, known.first)
        return StoreBounds(min(first, high), high)

    def _find(self, broker: BrokerInfo, due: Sequence[tuple[Sequence[PartitionKey], StoreFiles]]) -> None:
        with ThreadPoolExecutor(min(_AT_ONCE, len(due)), "tubeclient-first-offsets") as workers:
            for _ in workers.map(lambda one: self._search(broker, *one), due):
                pass

    def _search(self, broker: BrokerInfo, partitions: Sequence[PartitionKey], files: StoreFiles) -> None:
        store, (low, high) = partitions[0].store, files.index_bounds
        known = self._known.get(store)
        if known is not None:
            low = max(low, known.first)
        now, runner = time.monotonic(), FlowRunner(self._pool)
        look = DataLook(broker, partitions, self._names)
        try:
            first = runner.run(look.first(StoreBounds(low, high)))
            self._known[store] = _Known(first, files.data_min, high, now)
        except PartitionOccupied:
            if files.data_min != DATA_UNKNOWN:
                raise
            # Nothing says that data expired; readers report missing data themselves.
        finally:
            runner.run(look.release())


def loaded_files(
    ask: Callable[[Collection[str]], Mapping[StoreKey, StoreFiles]],
    broker: BrokerInfo,
    stores: Collection[StoreKey],
    settings: ClientSettings,
    never_written: Collection[StoreKey] = (),
) -> dict[StoreKey, StoreFiles]:
    """The files of these stores of one broker; `ask` queries its web port for their topics.

    The broker's answer lacks stores that were never written to, and all stores while it is starting: its web port opens
    before the stores are loaded. The port for clients opens after that. So if stores are missing that are not known as
    `never_written`, this checks that the client port accepts a connection. Raises errors of `ask`, and ConnectError.
    """
    topics = {store.topic for store in stores}
    found = ask(topics)
    if any(store not in found and store not in never_written for store in stores):
        with closing(ConnectionPool(settings)) as fresh:
            fresh.get(broker.address)
        found = ask(topics)
    return {store: found.get(store, NEVER_WRITTEN) for store in stores}
