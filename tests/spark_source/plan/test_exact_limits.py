"""Limits counted in rows, not in index entries: a model cluster whose stores hold messages, and batches over it.

Whatever partitions stand where, appear in a store that is in use, or are left out: no batch has more rows than allowed,
each message is read once, and a batch has exactly as many rows as allowed where the source promises it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from spark_source.offsets.offsets import Offsets
from spark_source.plan.planning import nodes_by_store, plan, ranges
from tubeclient.keys import INDEX_ENTRY_BYTES as ROW
from tubeclient.keys import PartitionKey, StoreBounds, StoreKey

Message = tuple[StoreKey, int]
"""A store and the place in its index."""


@dataclass
class Cluster:
    """Stores with at least one partition each; every entry of a store's index is a message of one of them."""

    partitions: dict[StoreKey, int]
    index: dict[StoreKey, list[PartitionKey]] = field(default_factory=dict)

    @property
    def keys(self) -> list[PartitionKey]:
        return [key_of(store, n) for store, count in self.partitions.items() for n in range(count)]

    @property
    def bounds(self) -> dict[StoreKey, StoreBounds]:
        return {store: StoreBounds(0, ROW * len(self.index.get(store, []))) for store in self.partitions}

    def append(self, store: StoreKey, senders: list[int]) -> None:
        """A message for each number, which a partition of the store is found by."""
        entries = self.index.setdefault(store, [])
        entries += [key_of(store, number % self.partitions[store]) for number in senders]

    def batch(self, start: Offsets, end: Offsets) -> list[Message]:
        """What the tasks of a batch read."""
        assigned = ranges(start, end, nodes_by_store(dict.fromkeys(end, 0)))
        return [
            (key.store, at)
            for of_node in assigned.values()
            for key, first, end in of_node
            for at in range(first // ROW, end // ROW)
            if self.index[key.store][at] == key
        ]


def key_of(store: StoreKey, number: int) -> PartitionKey:
    return PartitionKey(store.broker_id, store.topic, store.store_id * 10_000 + number)


def together(at: Offsets, keys: Collection[PartitionKey]) -> bool:
    """Whether each store's partitions stand at one offset, all of them known."""
    return set(keys) == set(at) and all(
        len({at[key] for key in keys if key.store == store}) == 1 for store in {key.store for key in keys}
    )


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    stores = [StoreKey(1 + n % 2, "t", n) for n in range(draw(st.integers(1, 3)))]
    cluster = Cluster({store: draw(st.integers(1, 3)) for store in stores})
    for store in stores:
        cluster.append(store, draw(st.lists(st.integers(0, 2), max_size=30)))
    return cluster


@given(clusters(), st.integers(1, 25), st.booleans(), st.data())
def test_every_row_once_and_never_more_than_allowed(
    cluster: Cluster, limit: int, assigned: bool, data: st.DataObject
) -> None:
    """The stores go on growing for some batches, in messages and in partitions, unless some partitions are assigned."""
    read_keys = set(
        data.draw(st.lists(st.sampled_from(cluster.keys), min_size=1, unique=True)) if assigned else cluster.keys
    )
    apart = data.draw(st.booleans())
    begin = Offsets.of(
        {key: ROW * data.draw(st.integers(0, len(cluster.index[key.store]))) if apart else 0 for key in read_keys}
    )
    growing, at, read = data.draw(st.integers(0, 6)), begin, Counter[Message]()
    while True:
        in_step = together(at, cluster.keys)
        backlog = sum((cluster.bounds[store].max_offset - offset) for store, offset in by_store(at).items()) // ROW
        end = plan(at, read_keys, cluster.bounds, limit)
        rows = cluster.batch(at, end)
        read.update(rows)
        assert len(rows) <= limit
        if in_step:
            assert len(rows) == min(limit, backlog)
        if end is at and not growing:
            break
        at = end
        if growing:
            growing -= 1
            store = data.draw(st.sampled_from(sorted(cluster.partitions)))
            if data.draw(st.booleans()):
                cluster.partitions[store] += 1
                if not assigned:
                    read_keys = set(cluster.keys)
            cluster.append(store, data.draw(st.lists(st.integers(0, 3), max_size=20)))
    wanted = [
        (store, place)
        for store, entries in cluster.index.items()
        for place, key in enumerate(entries)
        if key in read_keys and place * ROW >= begin.get(key, 0)
    ]
    assert read == Counter(wanted)


def by_store(at: Offsets) -> dict[StoreKey, int]:
    """Where each store's partition that is furthest behind stands."""
    lowest: dict[StoreKey, int] = {}
    for key, offset in at.items():
        lowest[key.store] = min(offset, lowest.get(key.store, offset))
    return lowest
