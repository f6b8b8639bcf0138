"""Sets of partitions, also by store."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from tubeclient.keys import PartitionKey, StoreKey

__all__ = ["PartitionSet"]


class PartitionSet(Collection[PartitionKey]):
    """An immutable set of partitions that iterates in order."""

    __slots__ = ("_keys", "by_store", "spans")

    def __init__(self, keys: Iterable[PartitionKey]) -> None:
        self._keys = tuple(sorted(set(keys)))
        ids: dict[StoreKey, list[int]] = {}
        for key in self._keys:
            ids.setdefault(key.store, []).append(key.partition_id)
        self.by_store: Mapping[StoreKey, frozenset[int]] = {store: frozenset(some) for store, some in ids.items()}
        """Partition ids by store."""
        self.spans: Mapping[StoreKey, Sequence[tuple[int, int]]] = {store: _spans(some) for store, some in ids.items()}
        """First and last id of neighbouring partitions, by store; sorted, as few as possible."""

    @classmethod
    def of(cls, keys: Iterable[PartitionKey]) -> PartitionSet:
        """Return `keys` as a set; a PartitionSet is returned unchanged."""
        return keys if isinstance(keys, PartitionSet) else cls(keys)

    def ids_of(self, store: StoreKey) -> frozenset[int]:
        """The ids of the partitions of a store."""
        return self.by_store.get(store, frozenset())

    def __contains__(self, key: object) -> bool:
        return isinstance(key, PartitionKey) and key.partition_id in self.ids_of(key.store)

    def __iter__(self) -> Iterator[PartitionKey]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def _spans(ids: Sequence[int]) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for number in ids:
        if spans and spans[-1][1] == number - 1:
            spans[-1] = spans[-1][0], number
        else:
            spans.append((number, number))
    return spans
