"""Where batches end besides the brokers' ends: the target of Trigger.AvailableNow, and the wait for enough rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from spark_source.offsets.offsets import Offsets, PartitionSet
from spark_source.stream.snapshot import Snapshot, some_of
from tubeclient.errors import ConnectError, TubeError
from tubeclient.keys import PartitionKey, StoreBounds, StoreKey
from tubeclient.positions.offset_lookup import OffsetLookup

__all__ = ["IdleLook", "Question", "Reach", "Target", "TriggerDelay"]


Reach: TypeAlias = tuple[PartitionSet, Mapping[StoreKey, StoreBounds]]
"""What a batch may read: the partitions that can be read now, and the bounds of stores whose brokers answer."""


class Target:
    """The partitions at the start, and the end of each store when its broker first answered: at once, unless it was
    down."""

    def __init__(self, frozen: Snapshot) -> None:
        self.frozen = frozen
        self.ends = {store: held.max_offset for store, held in frozen.bounds.items()}

    def within(self, recent: Snapshot) -> Reach:
        """What is left of the target at a look: the partitions that still exist, up to the target's ends."""
        there = self.frozen.configured
        bounds: dict[StoreKey, StoreBounds] = {}
        for store, held in recent.bounds.items():
            if store in there.spans:
                end = self.ends.setdefault(store, held.max_offset)
                bounds[store] = StoreBounds(held.min_offset, max(held.min_offset, min(end, held.max_offset)))
        return PartitionSet(key for key in recent.layout.readable if key in there), bounds

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
            raise ConnectError(
                f"Trigger.AvailableNow has read all except {some_of(left)}, whose brokers do not answer: {error}. "
                "What was read is complete and in the checkpoint; start the query again when they answer",
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


class TriggerDelay:
    """Holds back batches with too few rows, for at most `max_delay_ms`: `maxTriggerDelay`.

    As in Spark's Kafka source, a run's first batch is not held back. The time counts from the last batch that was let
    through, even if it had no rows.
    """

    def __init__(self, max_delay_ms: int, clock: Callable[[], float]) -> None:
        """`clock` returns seconds from any origin."""
        self._max_delay_seconds = max_delay_ms / 1000
        self._clock = clock
        self._over_at: float | None = None

    @property
    def over(self) -> bool:
        """Whether the delay is over, so that no batch is held back."""
        return self._over_at is None or self._clock() >= self._over_at

    def holds_back(self, rows: int, min_rows: int) -> bool:
        """Whether a batch of `rows` must wait; if not, the next delay begins now."""
        if rows < min_rows and not self.over:
            return True
        self._over_at = self._clock() + self._max_delay_seconds
        return False


class Question(NamedTuple):
    """Spark's question: where does the batch end?"""

    start: dict[str, Any]
    max_rows: int | None
    min_rows: int | None


class IdleLook(NamedTuple):
    """A question whose answer was that there is nothing to do, and the snapshot of that time. An idle query asks about
    90 times a second, and this answers nearly all of it."""

    question: Question
    snapshot: Snapshot
    held_back: bool
    """There are rows, but too few before the delay is over."""

    def answers(self, question: Question, recent: Snapshot, delay: TriggerDelay) -> bool:
        """Whether there is still nothing to do, because nothing relevant has changed."""
        return recent is self.snapshot and question == self.question and not (self.held_back and delay.over)
