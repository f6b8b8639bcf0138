"""A set of partitions: in order, each once, and the same by store."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from spark_source.offsets.partition_set import PartitionSet
from tests.spark_source.examples import partition_keys
from tubeclient.keys import PartitionKey, StoreKey


@given(st.lists(partition_keys), st.lists(partition_keys))
def test_it_is_a_set_in_order(keys: list[PartitionKey], others: list[PartitionKey]) -> None:
    found = PartitionSet(keys)
    assert list(found) == sorted(set(keys))
    assert len(found) == len(set(keys))
    assert [one in found for one in others] == [one in keys for one in others]
    assert PartitionSet.of(found) is found


@given(st.lists(partition_keys))
def test_by_store_it_is_the_same(keys: list[PartitionKey]) -> None:
    found = PartitionSet(keys)
    assert sorted(
        PartitionKey(store.broker_id, store.topic, number) for store in found.by_store for number in found.ids_of(store)
    ) == list(found)
    assert {
        store: [n for first, last in spans for n in range(first, last + 1)] for store, spans in found.spans.items()
    } == {store: sorted(ids) for store, ids in found.by_store.items()}
    assert all(one[1] + 1 < other[0] for spans in found.spans.values() for one, other in pairwise(spans))


def test_a_store_that_is_not_there_has_no_partitions() -> None:
    assert PartitionSet([PartitionKey(1, "t", 0)]).ids_of(StoreKey(1, "t", 1)) == frozenset()
