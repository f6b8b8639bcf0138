"""How far a query is behind: per store, node and partition; pure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_source.offsets.lag import SourceLag
from spark_source.offsets.offsets import Offsets
from tests.spark_source.fakes import ROW, key
from tubeclient.assignment import assign
from tubeclient.keys import PartitionKey, StoreKey

KEYS = [PartitionKey(1, topic, store * 10_000 + number) for topic in "ab" for store in (0, 1) for number in (0, 1)]


def offsets(**rows: int) -> Offsets:
    """By the short names a0, a1 (one store) and a10000."""
    return Offsets({key(f"1:a:{name[1:]}"): at * ROW for name, at in rows.items()})


def test_a_store_counts_once_by_its_partition_that_is_furthest_behind() -> None:
    lag = SourceLag.between(offsets(a0=4, a1=7, a10000=5), offsets(a0=10, a1=10, a10000=5))
    assert lag.by_store == {StoreKey(1, "a", 0): 6, StoreKey(1, "a", 1): 0}
    assert lag.rows_behind == 6
    assert lag.at_most_by_partition == {key("1:a:0"): 6, key("1:a:1"): 3, key("1:a:10000"): 0}
    assert lag.at_most_by_node is None


def test_a_node_counts_each_of_its_stores_once() -> None:
    end, latest = offsets(a0=4, a1=7, a10000=5), offsets(a0=10, a1=10, a10000=9)
    nodes = [[key("1:a:0"), key("1:a:1")], [key("1:a:10000")], [key("1:a:5")], []]
    assert SourceLag.between(end, latest, nodes).at_most_by_node == (6, 4, 0, 0)


def test_a_partition_without_an_end_has_all_to_read_and_one_past_the_end_nothing() -> None:
    lag = SourceLag.between(offsets(a0=12), offsets(a0=10, a10000=5))
    assert lag.by_store == {StoreKey(1, "a", 0): 0, StoreKey(1, "a", 1): 5}
    assert lag.at_most_by_partition == {key("1:a:0"): 0, key("1:a:10000"): 5}


def test_the_figures_have_the_names_of_sparks_kafka_source() -> None:
    lag = SourceLag.between(offsets(a0=4, a10000=5), offsets(a0=10, a10000=6))
    assert lag.metrics() == {
        "minOffsetsBehindLatest": "1",
        "maxOffsetsBehindLatest": "6",
        "avgOffsetsBehindLatest": "3.5",
    }
    assert SourceLag.between(Offsets({}), Offsets({})).metrics()["avgOffsetsBehindLatest"] == "0.0"


@given(
    st.dictionaries(st.sampled_from(KEYS), st.integers(0, 50)),
    st.dictionaries(st.sampled_from(KEYS), st.integers(0, 50)),
    st.integers(1, 5),
    st.sampled_from(["modulo", "hash_modulo"]),
)
def test_bounds_are_bounds(end: dict[PartitionKey, int], latest: dict[PartitionKey, int], nodes: int, by: str) -> None:
    until, there = (Offsets({k: at * ROW for k, at in one.items()}) for one in (end, latest))
    lag = SourceLag.between(until, there, assign(by, KEYS, nodes))
    assert lag.at_most_by_node is not None
    assert max(lag.at_most_by_node) <= lag.rows_behind <= sum(lag.at_most_by_node)
    assert lag.rows_behind <= sum(lag.at_most_by_partition.values())
    for store, rows in lag.by_store.items():
        assert rows == max(most for k, most in lag.at_most_by_partition.items() if k.store == store)


@pytest.mark.parametrize("number", ["minOffsetsBehindLatest", "maxOffsetsBehindLatest"])
def test_where_all_stand_at_the_end_nothing_is_behind(number: str) -> None:
    assert SourceLag.between(offsets(a0=3, a1=3), offsets(a0=3, a1=3)).metrics()[number] == "0"
