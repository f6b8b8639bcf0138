"""Who reads what: complete, disjoint, the same for every node, whatever the order of the input."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tubeclient import ConfigurationError, PartitionKey, assign
from tubeclient.assignment import STRATEGIES

keys = st.builds(
    PartitionKey, st.integers(1, 2**31), st.text("abcXYZ_-9", min_size=1, max_size=8), st.integers(0, 50_000)
)


@given(
    partitions=st.lists(keys, max_size=60, unique=True),
    source_count=st.integers(1, 20),
    strategy=st.sampled_from(sorted(STRATEGIES)),
    seed=st.integers(0, 1000),
)
def test_every_partition_goes_to_exactly_one_node(
    partitions: list[PartitionKey], source_count: int, strategy: str, seed: int
) -> None:
    nodes = assign(strategy, partitions, source_count)
    assert len(nodes) == source_count
    assert sorted(key for node in nodes for key in node) == sorted(partitions)
    assert all(node == sorted(node) for node in nodes)
    shuffled = list(partitions)
    random.Random(seed).shuffle(shuffled)
    assert assign(strategy, shuffled, source_count) == nodes


@given(partitions=st.lists(keys, max_size=60, unique=True), source_count=st.integers(1, 20))
def test_modulo_is_even_whatever_the_names(partitions: list[PartitionKey], source_count: int) -> None:
    sizes = [len(node) for node in assign("modulo", partitions, source_count)]
    assert max(sizes) - min(sizes) <= 1


def test_modulo_sorts_ids_as_numbers() -> None:
    partitions = [PartitionKey(10, "a", 0), PartitionKey(9, "b", 10), PartitionKey(9, "b", 9), PartitionKey(9, "a", 0)]
    assert [str(node[0]) for node in assign("modulo", partitions, 4)] == ["9:a:0", "9:b:9", "9:b:10", "10:a:0"]


# What a JVM 17 printed for String.hashCode() of these texts.
JAVA_HASHES = {
    "1:a:0": 47075470,
    "1:a:1": 47075471,
    "2:clicks:10001": 236063147,
    "1:flights:20003": 2026993525,
    "1:orders:0": -1558048252,
    "2:orders:7": -1754561750,
}


@pytest.mark.parametrize(("text", "java_hash"), JAVA_HASHES.items())
def test_hash_modulo_is_javas_hash_of_the_key_taken_as_unsigned(text: str, java_hash: int) -> None:
    for source_count in (1, 2, 3, 7, 16):
        nodes = assign("hash_modulo", [PartitionKey.parse(text)], source_count)
        assert nodes[java_hash % 2**32 % source_count] == [PartitionKey.parse(text)]


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ConfigurationError, match=r"'hash' is unknown.*hash_modulo, modulo"):
        assign("hash", [], 1)
    with pytest.raises(ConfigurationError, match="sourceCount must be 1 or more, not 0"):
        assign("modulo", [], 0)
