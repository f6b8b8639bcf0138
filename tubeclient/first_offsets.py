"""Where the messages of stores begin, which is not where their index begins: data expires before it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tubeclient.errors import PartitionOccupied
from tubeclient.flows.authority import Authority
from tubeclient.flows.data_look import DataLook
from tubeclient.keys import BrokerInfo, PartitionKey, StoreBounds, StoreFiles, StoreKey
from tubeclient.net.pool import ConnectionPool
from tubeclient.net.runner import FlowRunner

__all__ = ["NEVER_WRITTEN", "FirstOffsets"]

NEVER_WRITTEN = StoreFiles(StoreBounds(0, 0), 0)
"""The files of a store that is not there yet."""

_LOOK_AGAIN_SECONDS = 30.0
"""How long data is taken to be there where a broker does not say over HTTP whether any expired."""


class _Known(NamedTuple):
    first: int
    data_min: int
    looked_at: float


class FirstOffsets:
    """Finds the first offset of stores whose message is still there, under reader groups, and keeps it: it only moves
    forward, and only where data expires. For several threads, of which no two ask about one store.
    """

    def __init__(
        self,
        pool: ConnectionPool,
        reader_groups: Sequence[str],
        new_client_id: Callable[[], str],
        authority: Authority,
    ) -> None:
        self._pool = pool
        self._reader_groups = tuple(reader_groups)
        self._new_client_id = new_client_id
        self._authority = authority
        self._known: dict[StoreKey, _Known] = {}

    def bounds(self, broker: BrokerInfo, partitions: Sequence[PartitionKey], files: StoreFiles) -> StoreBounds:
        """The bounds of a store with these partitions, whose files are as the broker says over HTTP.

        Nothing is asked where no data expired since the last call, or ever. Raises what a look fails with.
        """
        if files.data_min <= 0:
            return files.index_bounds
        known = self._known.get(partitions[0].store)
        if known is None or known.data_min != files.data_min or known.first > files.index_bounds.max_offset:
            known = self._find(broker, partitions, files)
        return StoreBounds(max(known.first, files.index_bounds.min_offset), files.index_bounds.max_offset)

    def looked_up(self, broker: BrokerInfo, partitions: Sequence[PartitionKey], index: StoreBounds) -> StoreBounds:
        """The same where the broker does not say over HTTP what expired: as it was half a minute ago at most."""
        known = self._known.get(partitions[0].store)
        now = time.monotonic()
        if known is None or now - known.looked_at >= _LOOK_AGAIN_SECONDS or known.first > index.max_offset:
            try:
                known = self._find(broker, partitions, StoreFiles(index, -1))
            except PartitionOccupied:
                # Readers say themselves what they do not find.
                known = known or _Known(index.min_offset, -1, now)
        first = min(max(known.first, index.min_offset), index.max_offset)
        return StoreBounds(first, index.max_offset)

    def _find(self, broker: BrokerInfo, partitions: Sequence[PartitionKey], files: StoreFiles) -> _Known:
        store, index = partitions[0].store, files.index_bounds
        known = self._known.get(store)
        low = known.first if known is not None and known.first <= index.max_offset else 0
        now = time.monotonic()
        runner = FlowRunner(self._pool)
        look = DataLook(broker, partitions, self._reader_groups, self._new_client_id, self._authority)
        try:
            first = runner.run(look.first(StoreBounds(max(low, index.min_offset), index.max_offset)))
        finally:
            runner.run(look.release())
        found = self._known[store] = _Known(first, files.data_min, now)
        return found
