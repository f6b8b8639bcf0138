"""What a query was to read and the brokers do not hold: pure functions from positions to what is lost of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from spark_source.offsets.offsets import Offsets
from spark_source.offsets.partition_set import PartitionSet
from tubeclient.errors import DataLoss
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey, StoreBounds, StoreKey

__all__ = [
    "NEW_CHECKPOINT",
    "AwayBroker",
    "GonePartition",
    "Loss",
    "LostEnd",
    "LostOffsets",
    "data_loss",
    "find_away",
    "find_cut",
    "find_gone",
    "find_lost",
]

NEW_CHECKPOINT = "begin with a new checkpoint at startingOffsets that the brokers hold"
"""The way out for a query that stands where its brokers hold nothing."""


class LostOffsets(NamedTuple):
    """A partition whose position lies outside of what its broker holds."""

    partition: PartitionKey
    position: int
    """Where the query stands."""
    low: int
    """The broker's first offset."""
    high: int
    """The offset after the broker's last."""

    @property
    def identity(self) -> tuple[PartitionKey, int, bool]:
        """The same loss seen again, though the broker's bounds move."""
        return self.partition, self.position, self.expired

    @property
    def expired(self) -> bool:
        """Whether messages have expired; else the broker's data ends before the position."""
        return self.position < self.low

    @property
    def found(self) -> int:
        """The offset that the broker holds nearest to the position."""
        return self.low if self.expired else self.high

    def __str__(self) -> str:
        if self.expired:
            return (
                f"partition {self.partition} was to be read from {self.position} on, but the broker holds it from "
                f"{self.low} on: at most {(self.low - self.position) // INDEX_ENTRY_BYTES} messages have expired"
            )
        return (
            f"partition {self.partition} was to be read from {self.position} on, but the broker's data ends at "
            f"{self.high}: it lost its tail (at most {(self.position - self.high) // INDEX_ENTRY_BYTES} messages), or "
            f"the topic was deleted or made anew (what it holds up to {self.high} is not read)"
        )


class GonePartition(NamedTuple):
    """A partition with a position that the cluster does not list any more."""

    partition: PartitionKey
    position: int
    """Where the query stands."""
    is_away: bool = False
    """The broker may come back, but what a batch was to read of it is not read then."""

    @property
    def identity(self) -> tuple[PartitionKey, int, None]:
        """The same loss seen again; not that of a topic of the same name that came after."""
        return self.partition, self.position, None

    @property
    def found(self) -> None:
        """The broker holds nothing."""
        return

    def __str__(self) -> str:
        return (
            f"partition {self.partition} was to be read from {self.position} on, but the cluster does not list it any "
            "more: "
        ) + (
            f"broker {self.partition.broker_id} is away, and a batch that was planned before goes without it"
            if self.is_away
            else "its store or its topic was taken away, and with it what was not read yet"
        )


class AwayBroker(NamedTuple):
    """A broker that is shown without a topic that others have, and the query has a place there: ClusterView.is_away."""

    positions: Sequence[tuple[PartitionKey, int]]
    """Where the query stands: one partition at least, sorted."""

    @property
    def partition(self) -> PartitionKey:
        """The first of them."""
        return self.positions[0][0]

    @property
    def position(self) -> int:
        """Where the query stands in the first of them."""
        return self.positions[0][1]

    @property
    def identity(self) -> tuple[int, str]:
        """The same broker, whatever it has."""
        return self.partition.broker_id, "away"

    @property
    def found(self) -> None:
        """The broker tells nothing."""
        return

    def __str__(self) -> str:
        others = len(self.positions) - 1
        also = f" ({others} more of that broker as well)" if others else ""
        return (
            f"partition {self.partition} was to be read from {self.position} on, but the cluster does not list it any "
            f"more{also}: the master shows nothing of topic {self.partition.topic} on broker "
            f"{self.partition.broker_id}, while other brokers have it. That broker may only have been taken out for a "
            "while: its partitions keep their place and are read on from there when it is back"
        )


class LostEnd(NamedTuple):
    """A partition that was to be read up to where its store ended once, and the store ends before that now."""

    partition: PartitionKey
    end: int
    """Where the store ended."""
    high: int
    """Where it ends."""

    @property
    def position(self) -> int:
        """What was to be reached."""
        return self.end

    @property
    def identity(self) -> tuple[PartitionKey, int, str]:
        """The same loss seen again, though the broker's end moves."""
        return self.partition, self.end, "end"

    @property
    def found(self) -> int:
        """The offset that the broker holds nearest to the end."""
        return self.high

    def __str__(self) -> str:
        return (
            f"partition {self.partition} was to be read up to {self.end}, where it ended when Trigger.AvailableNow "
            f"began, but the broker's data ends at {self.high} now: it lost its tail (at most "
            f"{(self.end - self.high) // INDEX_ENTRY_BYTES} messages), or the topic was deleted or made anew"
        )


Loss: TypeAlias = LostOffsets | GonePartition | AwayBroker | LostEnd
"""What is lost of a partition."""


def find_gone(
    positions: Mapping[PartitionKey, int],
    configured: Iterable[PartitionKey],
    is_read: Callable[[PartitionKey], bool],
) -> list[GonePartition]:
    """Return the partitions with a position that the cluster has no more, of those that are still to be read."""
    there, known = PartitionSet.of(configured), Offsets.of(positions)
    if known.spans == there.spans:
        return []
    gone = [
        (PartitionKey(store.broker_id, store.topic, number), run.offset)
        for store, runs in known.runs.items()
        for listed in [there.ids_of(store)]
        for run in runs
        for number in run.ids
        if number not in listed
    ]
    return [GonePartition(key, at) for key, at in gone if is_read(key)]


def find_away(
    gone: Iterable[GonePartition], is_away: Callable[[PartitionKey], bool]
) -> list[GonePartition | AwayBroker]:
    """Return what of `gone` is gone for good, and then what is only away, by broker."""
    for_good: list[GonePartition | AwayBroker] = []
    away: dict[int, list[tuple[PartitionKey, int]]] = {}
    for one in gone:
        if is_away(one.partition):
            away.setdefault(one.partition.broker_id, []).append((one.partition, one.position))
        else:
            for_good.append(one)
    return [*for_good, *(AwayBroker(sorted(away[broker_id])) for broker_id in sorted(away))]


def find_lost(
    positions: Mapping[PartitionKey, int],
    bounds: Mapping[StoreKey, StoreBounds],
    is_read: Callable[[PartitionKey], bool] = lambda _: True,
) -> list[LostOffsets]:
    """Return the partitions that stand outside of their store's bounds, of those that are still to be read; sorted."""
    return [
        LostOffsets(key, run.offset, held.min_offset, held.max_offset)
        for store, runs in Offsets.of(positions).runs.items()
        if (held := bounds.get(store)) is not None
        for run in runs
        if not held.min_offset <= run.offset <= held.max_offset
        for number in run.ids
        if is_read(key := PartitionKey(store.broker_id, store.topic, number))
    ]


def find_cut(
    positions: Mapping[PartitionKey, int],
    ends: Mapping[StoreKey, int],
    bounds: Mapping[StoreKey, StoreBounds],
    is_read: Callable[[PartitionKey], bool],
) -> list[LostEnd]:
    """Return the partitions that cannot be read up to `ends` any more, as their store ends between; sorted."""
    return [
        LostEnd(key, end, held.max_offset)
        for store, runs in Offsets.of(positions).runs.items()
        if (held := bounds.get(store)) is not None and (end := ends.get(store, 0)) > held.max_offset
        for run in runs
        if run.offset <= held.max_offset
        for number in run.ids
        if is_read(key := PartitionKey(store.broker_id, store.topic, number))
    ]


def data_loss(lost: Sequence[Loss], way_out: str = NEW_CHECKPOINT) -> DataLoss:
    """Return the error for positions that the brokers do not hold: what, where, and what to do."""
    first = lost[0]
    others = f" (and {len(lost) - 1} more partitions like it)" if len(lost) > 1 else ""
    without = "set failOnDataLoss=false to go on without what is lost"
    if isinstance(first, AwayBroker):
        remedy = "Start again when the broker is back, or set failOnDataLoss=false to read the others meanwhile"
    elif isinstance(first, GonePartition) and first.is_away:
        remedy = f"Start again when the broker is back, or {without}"
    else:
        remedy = f"S{without[1:]}, or {way_out}"
    return DataLoss(
        f"{first}{others}. {remedy}",
        partition=str(first.partition),
        wanted=first.position,
        found=first.found,
    )
