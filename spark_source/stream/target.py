"""Where a query with Trigger.AvailableNow ends: where the stores ended when it began."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from spark_source.cluster.cluster import Lookup
from spark_source.offsets.offsets import Offsets
from spark_source.offsets.partition_set import PartitionSet
from spark_source.stream.silent_brokers import some_of
from spark_source.stream.snapshot import Snapshot
from tubeclient.errors import ConnectError, TubeError
from tubeclient.keys import PartitionKey, StoreBounds, StoreKey

__all__ = ["Reach", "Target"]


class Reach(NamedTuple):
    """What a batch may be planned of."""

    partitions: PartitionSet
    """That can be read now."""
    bounds: Mapping[StoreKey, StoreBounds]
    """Of the stores whose brokers answer now."""


class Target:
    """The partitions that there were, and the end of each store when its broker was heard first: at once, unless it was
    down then."""

    def __init__(self, frozen: Snapshot) -> None:
        self.frozen = frozen
        self.ends = {store: held.max_offset for store, held in frozen.bounds.items()}
        self._last: tuple[Snapshot, Reach] | None = None

    def within(self, recent: Snapshot) -> Reach:
        """What is left of the target at a look: what the cluster has still, up to the target's ends."""
        if self._last is None or self._last[0] is not recent:
            there = self.frozen.configured
            bounds: dict[StoreKey, StoreBounds] = {}
            for store, held in recent.bounds.items():
                if store in there.spans:
                    end = self.ends.setdefault(store, held.max_offset)
                    bounds[store] = StoreBounds(held.min_offset, max(held.min_offset, min(end, held.max_offset)))
            partitions = PartitionSet(key for key in recent.layout.readable if key in there)
            self._last = recent, Reach(partitions, bounds)
        return self._last[1]

    def waited_for_silent(self, reached: Offsets, recent: Snapshot, lookup: Lookup) -> bool:
        """Whether brokers that hold a part of the target were silent, and answer again; without waiting where none was.

        ConnectError where they do not answer for `retryLimit`: Spark would take the query's end for that of all its
        data.
        """
        left = self._left(reached, recent)
        if not left:
            return False
        try:
            lookup.bounds(recent.layout.view_read)
        except TubeError as error:
            at_latest = [key for key in left if reached.waiting.get(key) == "latest"]
            left_out = (
                f". {some_of(at_latest)} begin at `latest` only when a run hears their broker first: what is written "
                "there until then is left out. To have it, begin with a new checkpoint while all brokers answer, or at "
                "startingTimestamp or an offset of these partitions in startingOffsets"
                if at_latest
                else ""
            )
            raise ConnectError(
                f"Trigger.AvailableNow has read everything but {some_of(left)}, whose brokers do not answer: {error}. "
                f"What was read is complete and in the checkpoint; start the query again when they do{left_out}"
            ) from error
        return True

    def _left(self, reached: Offsets, recent: Snapshot) -> list[PartitionKey]:
        """The target's partitions that were not read to its end because their broker does not answer."""
        return [
            key
            for broker_id in recent.silent
            for key in recent.untold_of(broker_id)
            if key in self.frozen.configured
            and (key not in reached or key.store not in self.ends or reached[key] < self.ends[key.store])
        ]
