"""The end of a query with Trigger.AvailableNow: the stores' ends when it began."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from spark_source.offsets.offsets import Offsets
from spark_source.offsets.partition_set import PartitionSet
from spark_source.stream.silent_brokers import some_of
from spark_source.stream.snapshot import Snapshot
from tubeclient.errors import ConnectError, TubeError
from tubeclient.keys import PartitionKey, StoreBounds, StoreKey
from tubeclient.positions.offset_lookup import OffsetLookup

__all__ = ["Reach", "Target"]


class Reach(NamedTuple):
    """The data that a batch may read."""

    partitions: PartitionSet
    """That can be read now."""
    bounds: Mapping[StoreKey, StoreBounds]
    """Of the stores whose brokers answer now."""


class Target:
    """The partitions at the start, and the end of each store when its broker first answered: at once, unless it was
    down."""

    def __init__(self, frozen: Snapshot) -> None:
        self.frozen = frozen
        self.ends = {store: held.max_offset for store, held in frozen.bounds.items()}
        self._last: tuple[Snapshot, Reach] | None = None

    def within(self, recent: Snapshot) -> Reach:
        """What is left of the target at a look: the partitions that still exist, up to the target's ends."""
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

    def waited_for_silent(self, reached: Offsets, recent: Snapshot, lookup: OffsetLookup) -> bool:
        """Whether brokers with a part of the target were silent and answer again; does not wait if none was silent.

        ConnectError if they do not answer for `retryLimit`: Spark would take the query's end for the end of all its
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
                f". {some_of(at_latest)} begin at `latest` only when their broker first answers: messages written "
                "there until then are not read. To read them, begin with a new checkpoint while all brokers answer, or "
                "at startingTimestamp or an offset of these partitions in startingOffsets"
                if at_latest
                else ""
            )
            raise ConnectError(
                f"Trigger.AvailableNow has read all except {some_of(left)}, whose brokers do not answer: {error}. "
                f"What was read is complete and in the checkpoint; start the query again when they answer{left_out}",
                condition="BROKER_UNREACHABLE",
            ) from error
        return True

    def _left(self, reached: Offsets, recent: Snapshot) -> list[PartitionKey]:
        """The target's partitions that were not read to their end because their broker does not answer."""
        return [
            key
            for broker_id in recent.silent
            for key in recent.untold_of(broker_id)
            if key in self.frozen.configured
            and (key not in reached or key.store not in self.ends or reached[key] < self.ends[key.store])
        ]
