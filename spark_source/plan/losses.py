"""Data that a query should read but the brokers no longer hold: pure functions from positions to losses."""

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
"""Advice for a query whose positions the brokers no longer hold."""


class LostOffsets(NamedTuple):
    """A partition whose position is outside of what its broker holds."""

    partition: PartitionKey
    position: int
    """The query's position."""
    low: int
    """The broker's first offset."""
    high: int
    """The offset after the broker's last."""

    @property
    def identity(self) -> tuple[PartitionKey, int, bool]:
        """Equal for the same loss, even if the broker's bounds move."""
        return self.partition, self.position, self.expired

    @property
    def expired(self) -> bool:
        """Whether messages have expired; otherwise the broker's data ends before the position."""
        return self.position < self.low

    @property
    def found(self) -> int:
        """The nearest offset that the broker holds."""
        return self.low if self.expired else self.high

    def __str__(self) -> str:
        if self.expired:
            return (
                f"partition {self.partition} should be read from {self.position}, but the broker holds it only from "
                f"{self.low}: at most {(self.low - self.position) // INDEX_ENTRY_BYTES} messages have expired"
            )
        return (
            f"partition {self.partition} should be read from {self.position}, but the broker's data ends at "
            f"{self.high}: it lost its tail (at most {(self.position - self.high) // INDEX_ENTRY_BYTES} messages), or "
            f"the topic was deleted or created again (its messages up to {self.high} are not read)"
        )


class GonePartition(NamedTuple):
    """A partition with a position that the cluster no longer lists."""

    partition: PartitionKey
    position: int
    """The query's position."""
    is_away: bool = False
    """Whether the broker may come back; a planned batch is read without it nevertheless."""

    @property
    def identity(self) -> tuple[PartitionKey, int, None]:
        """Equal for the same loss; not for a later topic of the same name."""
        return self.partition, self.position, None

    @property
    def found(self) -> None:
        """The broker holds nothing."""
        return

    def __str__(self) -> str:
        return (
            f"partition {self.partition} should be read from {self.position}, but the cluster does not list it any "
            "more: "
        ) + (
            f"broker {self.partition.broker_id} is away, and a batch planned before is read without it"
            if self.is_away
            else "its store or topic was removed, with its unread messages"
        )


class AwayBroker(NamedTuple):
    """A broker without a topic that other brokers have, while the query has a position there: ClusterView.is_away."""

    positions: Sequence[tuple[PartitionKey, int]]
    """The query's positions: at least one, sorted."""

    @property
    def partition(self) -> PartitionKey:
        """The first partition."""
        return self.positions[0][0]

    @property
    def position(self) -> int:
        """The query's position in the first partition."""
        return self.positions[0][1]

    @property
    def identity(self) -> tuple[int, str]:
        """Equal for the same broker, whatever its partitions."""
        return self.partition.broker_id, "away"

    @property
    def found(self) -> None:
        """Unknown while the broker is away."""
        return

    def __str__(self) -> str:
        others = len(self.positions) - 1
        also = f" ({others} more of that broker as well)" if others else ""
        return (
            f"partition {self.partition} should be read from {self.position}, but the cluster does not list it any "
            f"more{also}: the master shows no topic {self.partition.topic} on broker {self.partition.broker_id}, "
            "while other brokers have it. That broker may be away for a while only: its partitions keep their "
            "positions and are read from there when it is back"
        )


class LostEnd(NamedTuple):
    """A partition that should be read up to its store's former end, but the store now ends earlier."""

    partition: PartitionKey
    end: int
    """The store's former end."""
    high: int
    """The store's end now."""

    @property
    def position(self) -> int:
        """The end to reach."""
        return self.end

    @property
    def identity(self) -> tuple[PartitionKey, int, str]:
        """Equal for the same loss, even if the broker's end moves."""
        return self.partition, self.end, "end"

    @property
    def found(self) -> int:
        """The nearest offset that the broker holds."""
        return self.high

    def __str__(self) -> str:
        return (
            f"partition {self.partition} should be read up to {self.end}, its end when Trigger.AvailableNow "
            f"began, but the broker's data now ends at {self.high}: it lost its tail (at most "
            f"{(self.end - self.high) // INDEX_ENTRY_BYTES} messages), or the topic was deleted or created again"
        )


_NAMED = 10
"""How many partitions an error names besides the first."""


Loss: TypeAlias = LostOffsets | GonePartition | AwayBroker | LostEnd
"""A loss in a partition."""


def find_gone(
    positions: Mapping[PartitionKey, int],
    configured: Iterable[PartitionKey],
    is_read: Callable[[PartitionKey], bool],
) -> list[GonePartition]:
    """Return the partitions with a position that the cluster no longer lists, if something of them is still to be
    read."""
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
    """Return those of `gone` that are gone for good, then those that are only away, by broker."""
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
    """Return the partitions whose position is outside of their store's bounds, if something of them is still to be
    read; sorted."""
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
    """Return the partitions that can no longer be read up to `ends`, because their store ends earlier; sorted."""
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
    """Return the error for positions that the brokers do not hold: what, where, and what to do. It names the first
    partitions only."""
    first = lost[0]
    others = [key for one in lost[1:] for key in _partitions(one)]
    named = ", ".join(map(str, others[:_NAMED]))
    unnamed = f", and {len(others) - _NAMED} that the log names" if len(others) > _NAMED else ""
    partitions = "partition" if len(others) == 1 else "partitions"
    like_it = f" (and {len(others)} more {partitions} like it: {named}{unnamed})" if others else ""
    without = "set failOnDataLoss=false to go on without what is lost"
    if isinstance(first, AwayBroker):
        remedy = "Start again when the broker is back, or set failOnDataLoss=false to read the others meanwhile"
    elif isinstance(first, GonePartition) and first.is_away:
        remedy = f"Start again when the broker is back, or {without}"
    else:
        remedy = f"S{without[1:]}, or {way_out}"
    return DataLoss(
        f"{first}{like_it}. {remedy}",
        partition=str(first.partition),
        wanted=first.position,
        found=first.found,
    )


def _partitions(loss: Loss) -> list[PartitionKey]:
    return [key for key, _ in loss.positions] if isinstance(loss, AwayBroker) else [loss.partition]
