"""Data that a query should read but the brokers no longer hold: pure functions from positions to losses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from spark_source.offsets.offsets import Offsets, PartitionSet
from tubeclient.errors import DataLoss
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey, StoreBounds, StoreKey

NEW_CHECKPOINT: Final = "start with a new checkpoint at startingOffsets that the brokers hold"
"""Advice for a query whose positions the brokers no longer hold."""

_NAMED: Final = 10
"""How many partitions an error names besides the first."""
_WITHOUT: Final = "set failOnDataLoss=false to continue without what is lost"


class Loss(NamedTuple):
    """A partition that cannot be read from where it should be, or up to where it should be."""

    kind: Literal["expired", "tail", "end", "gone", "away"]
    """Messages before the broker's first offset; positions behind its last; an end behind its last; a partition that
    the cluster no longer lists; a broker without a topic that other brokers have, see ClusterView.is_away."""
    partition: PartitionKey
    position: int
    found: int | None
    """The nearest offset that the broker holds; None: nothing, as far as is known."""
    text: str
    remedy: str = ""
    """What to do, if it is not the same for all."""

    @property
    def place(self) -> tuple[object, str]:
        """What is lost where, without its position; of a broker that is away all is one."""
        return (self.partition.broker_id if self.kind == "away" else self.partition), self.kind

    @property
    def identity(self) -> tuple[object, ...]:
        """Equal for the same loss, even if the broker's bounds move."""
        return self.place if self.kind == "away" else (*self.place, self.position)

    def __str__(self) -> str:
        return f"partition {self.partition} should be read {self.text}"


def find_gone(
    positions: Mapping[PartitionKey, int],
    configured: Iterable[PartitionKey],
    is_read: Callable[[PartitionKey], bool] = lambda _: True,
) -> list[tuple[PartitionKey, int]]:
    """Return the partitions that the cluster no longer lists, with their positions."""
    there, known = PartitionSet.of(configured), Offsets.of(positions)
    if known.spans == there.spans:
        return []
    return [
        (key, run.offset)
        for store, runs in known.runs.items()
        for listed in [there.ids_of(store)]
        for run in runs
        for number in run.ids
        if number not in listed
        if is_read(key := PartitionKey(store.broker_id, store.topic, number))
    ]


def gone(key: PartitionKey, position: int, *, is_away: bool = False) -> Loss:
    """The loss of a partition that the cluster no longer lists; with `is_away` in a batch that was planned before."""
    text = f"from {position}, but the cluster no longer lists it: "
    if not is_away:
        return Loss("gone", key, position, None, text + "its store or topic was removed, with its unread messages")
    text += f"broker {key.broker_id} is away, and the batch that was already planned is read without it"
    return Loss("gone", key, position, None, text, f"Start again when the broker is back, or {_WITHOUT}")


def gone_or_away(key: PartitionKey, position: int, is_away: Callable[[PartitionKey], bool]) -> Loss:
    """The loss of a partition of `find_gone`, for good or for a while."""
    if not is_away(key):
        return gone(key, position)
    text = (
        f"from {position}, but the cluster no longer lists it: the master shows no topic {key.topic} on broker "
        f"{key.broker_id}, while other brokers have it. That broker may be away only for a while: its partitions "
        "keep their positions and are read from there when it is back"
    )
    remedy = "Start again when the broker is back, or set failOnDataLoss=false to read the others meanwhile"
    return Loss("away", key, position, None, text, remedy)


def find_lost(
    positions: Mapping[PartitionKey, int],
    bounds: Mapping[StoreKey, StoreBounds],
    is_read: Callable[[PartitionKey], bool] = lambda _: True,
) -> list[Loss]:
    """Return the partitions whose position is outside of their store's bounds; sorted."""
    return [
        _lost(key, run.offset, limits)
        for store, runs in Offsets.of(positions).runs.items()
        if (limits := bounds.get(store)) is not None
        for run in runs
        if not limits.min_offset <= run.offset <= limits.max_offset
        for number in run.ids
        if is_read(key := PartitionKey(store.broker_id, store.topic, number))
    ]


def _lost(key: PartitionKey, position: int, limits: StoreBounds) -> Loss:
    low, high = limits
    if position < low:
        messages = (low - position) // INDEX_ENTRY_BYTES
        text = f"but the broker holds it only from {low}: at most {messages} messages have expired"
        return Loss("expired", key, position, low, f"from {position}, {text}")
    text = (
        f"but the broker's data ends at {high}: it lost its tail (at most {(position - high) // INDEX_ENTRY_BYTES} "
        f"messages), or the topic was deleted or recreated (its messages up to {high} are not read)"
    )
    return Loss("tail", key, position, high, f"from {position}, {text}")


def find_cut(
    positions: Mapping[PartitionKey, int],
    ends: Mapping[StoreKey, int],
    bounds: Mapping[StoreKey, StoreBounds],
    is_read: Callable[[PartitionKey], bool],
) -> list[Loss]:
    """Return the partitions that can no longer be read up to `ends`, because their store ends earlier; sorted."""
    return [
        Loss(
            "end",
            key,
            end,
            limits.max_offset,
            f"up to {end}, its end when Trigger.AvailableNow began, but the broker's data now ends at "
            f"{limits.max_offset}: it lost its tail (at most {(end - limits.max_offset) // INDEX_ENTRY_BYTES} "
            "messages), or the topic was deleted or recreated",
        )
        for store, runs in Offsets.of(positions).runs.items()
        if (limits := bounds.get(store)) is not None and (end := ends.get(store, 0)) > limits.max_offset
        for run in runs
        if run.offset <= limits.max_offset
        for number in run.ids
        if is_read(key := PartitionKey(store.broker_id, store.topic, number))
    ]


def data_loss(lost: Sequence[Loss], way_out: str = NEW_CHECKPOINT) -> DataLoss:
    """Return the error for losses: what, where, and what to do. It names the first partitions only."""
    first, *others = lost
    named = ", ".join(str(loss.partition) for loss in others[:_NAMED])
    unnamed = f", and {len(others) - _NAMED} more in the log" if len(others) > _NAMED else ""
    like_it = f" (and {len(others)} more like it: {named}{unnamed})" if others else ""
    return DataLoss(
        f"{first}{like_it}. {first.remedy or f'S{_WITHOUT[1:]}, or {way_out}'}",
        partition=str(first.partition),
        wanted=first.position,
        found=first.found,
    )
