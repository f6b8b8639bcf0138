"""Where a query stands: one immutable map from partitions to offsets, with one text.

Spark compares offsets as text: two texts for one map would be "new data", and an endless row of empty batches. And the
text is written to the checkpoint for every batch, so it is kept small: partitions of a store that stand at the same
offset, which is the normal case, are written as one run of partition ids.

    {"1:flights:0": {"0-3": 2800}, "1:flights:1": {"10000": 560, "10001-10003": 588}}

The outer keys are stores (brokerId:topic:storeId), the inner ones partition ids; both are sorted as text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from tubeclient.errors import ConfigurationError
from tubeclient.keys import INDEX_ENTRY_BYTES, MAX_STORE_PARTITIONS, PartitionKey, StoreKey

__all__ = ["Offsets", "checked_offset"]


def checked_offset(value: object, where: str) -> int:
    """Return `value` if it is an index offset: a whole multiple of 28 bytes from 0 on. `where` names it in the
    error."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigurationError(f"the offset {value!r} of {where} is not a whole number")
    if value < 0 or value % INDEX_ENTRY_BYTES:
        raise ConfigurationError(
            f"the offset {value} of {where} is not a multiple of {INDEX_ENTRY_BYTES} from 0 on; TubeMQ counts "
            f"offsets in bytes of the index, {INDEX_ENTRY_BYTES} for each message"
        )
    return value


class Offsets(Mapping[PartitionKey, int]):
    """The next offset to read of each partition, in bytes of its store's index. Immutable; equal maps, equal texts."""

    __slots__ = ("_dict", "_positions")

    def __init__(self, positions: Mapping[PartitionKey, int]) -> None:
        self._positions: Final = {key: checked_offset(positions[key], str(key)) for key in sorted(positions)}
        self._dict: dict[str, dict[str, int]] | None = None

    @classmethod
    def of(cls, positions: Mapping[PartitionKey, int]) -> Offsets:
        """Return `positions` as Offsets; ConfigurationError where an offset is not a multiple of 28 from 0 on."""
        return positions if isinstance(positions, Offsets) else cls(positions)

    @classmethod
    def from_dict(cls, stores: object) -> Offsets:
        """Read what `to_dict` returns; ConfigurationError naming the store or partition for anything else."""
        if not isinstance(stores, Mapping):
            raise ConfigurationError(f"offsets are a JSON object of stores, not {stores!r}")
        positions: dict[PartitionKey, int] = {}
        for store_text, runs in stores.items():
            store = _parse_store(store_text)
            if not isinstance(runs, Mapping):
                raise ConfigurationError(
                    f"the offsets of store {store} are a JSON object of partition ids, not {runs!r}"
                )
            for run_text, offset in runs.items():
                for key in _parse_run(store, run_text):
                    if key in positions:
                        raise ConfigurationError(f"the offsets name partition {key} twice")
                    positions[key] = checked_offset(offset, f"{store}, partitions {run_text}")
        return cls(positions)

    @classmethod
    def parse(cls, text: str) -> Offsets:
        """Read what `to_json` returns; ConfigurationError for anything else."""
        try:
            stores = json.loads(text)
        except ValueError as error:
            raise ConfigurationError(f"offsets that are not JSON: {error}") from error
        return cls.from_dict(stores)

    def __getitem__(self, key: PartitionKey) -> int:
        return self._positions[key]

    def __iter__(self) -> Iterator[PartitionKey]:
        return iter(self._positions)

    def __len__(self) -> int:
        return len(self._positions)

    def __hash__(self) -> int:
        return hash(tuple(self._positions.items()))

    def __repr__(self) -> str:
        return f"Offsets({self.to_json()})"

    def as_dict(self) -> dict[PartitionKey, int]:
        """Return a dict of the same content, in the order of the keys."""
        return dict(self._positions)

    def to_dict(self) -> dict[str, dict[str, int]]:
        """Return the canonical form, fit for json.dumps. It is shared: do not change it."""
        if self._dict is None:
            stores: dict[str, dict[str, int]] = {}
            for first, last, offset in _runs(self._positions.items()):
                ids = str(first.partition_id) if first == last else f"{first.partition_id}-{last.partition_id}"
                stores.setdefault(str(first.store), {})[ids] = offset
            self._dict = {store: dict(sorted(stores[store].items())) for store in sorted(stores)}
        return self._dict

    def to_json(self) -> str:
        """Return the canonical text, as Spark's planner process writes it for `to_dict`."""
        return json.dumps(self.to_dict())

    def merge(self, newer: Mapping[PartitionKey, int]) -> Offsets:
        """Return these offsets with those of `newer` laid over them."""
        return Offsets({**self._positions, **newer})

    def clamp(self, low: Mapping[PartitionKey, int], high: Mapping[PartitionKey, int]) -> Offsets:
        """Return these offsets raised to `low` and then lowered to `high` where those name the partition."""
        return Offsets(
            {key: min(max(at, low.get(key, at)), high.get(key, max(at, low.get(key, at)))) for key, at in self.items()}
        )


def _runs(items: Iterable[tuple[PartitionKey, int]]) -> Iterator[tuple[PartitionKey, PartitionKey, int]]:
    """Yield (first, last, offset) of the longest runs of neighbouring partitions of a store at one offset; items
    sorted."""
    first = last = None
    offset = 0
    for key, at in items:
        if (
            first is not None
            and last is not None
            and at == offset
            and key.partition_id == last.partition_id + 1
            and key.store == first.store
        ):
            last = key
            continue
        if first is not None and last is not None:
            yield first, last, offset
        first = last = key
        offset = at
    if first is not None and last is not None:
        yield first, last, offset


def _parse_store(text: object) -> StoreKey:
    parts = text.split(":") if isinstance(text, str) else []
    if len(parts) != 3 or not (parts[0].isdecimal() and parts[1] and parts[2].isdecimal()):
        raise ConfigurationError(
            f"{text!r} is not a store; offsets are keyed by brokerId:topic:storeId, as in 1:clicks:0"
        )
    return StoreKey(int(parts[0]), parts[1], int(parts[2]))


def _parse_run(store: StoreKey, text: object) -> list[PartitionKey]:
    """Return the partitions of a run, "3" or "0-3"."""
    first, dash, last = text.partition("-") if isinstance(text, str) else ("", "", "")
    if not first.isdecimal() or (dash and not last.isdecimal()):
        raise ConfigurationError(
            f'{text!r} in store {store} is no run of partition ids; write "3", or "0-3" for 0 to 3'
        )
    low, high = int(first), int(last) if dash else int(first)
    if high < low:
        raise ConfigurationError(f"the run of partition ids {text!r} in store {store} ends before it starts")
    if low // MAX_STORE_PARTITIONS != store.store_id or high // MAX_STORE_PARTITIONS != store.store_id:
        lowest = store.store_id * MAX_STORE_PARTITIONS
        raise ConfigurationError(
            f"the partition ids {text!r} are not of store {store}, whose ids are {lowest} to "
            f"{lowest + MAX_STORE_PARTITIONS - 1}"
        )
    return [PartitionKey(store.broker_id, store.topic, number) for number in range(low, high + 1)]
