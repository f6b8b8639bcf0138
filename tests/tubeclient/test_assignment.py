"""Who reads what: complete, disjoint, the same for every node, whatever the order of the input."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tubeclient.assignment_cases import Case, cases, keys
from tubeclient import PartitionKey, assign
from tubeclient.assignment import STRATEGIES, Hints

_K = TypeVar("_K")
_V = TypeVar("_V")


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(case=cases(), chance=st.randoms(use_true_random=False))
def test_every_partition_goes_to_exactly_one_node(strategy: str, case: Case, chance: random.Random) -> None:
    partitions, source_count, hints = case
    nodes = assign(strategy, partitions, source_count, hints)
    assert len(nodes) == source_count
    assert sorted(key for node in nodes for key in node) == sorted(partitions)
    assert all(node == sorted(node) for node in nodes)
    shuffled = list(partitions)
    chance.shuffle(shuffled)
    assert assign(strategy, [*shuffled, *shuffled[:2]], source_count, _shuffled(hints, chance)) == nodes


def _shuffled(hints: Hints, chance: random.Random) -> Hints:
    """The same hints, said in another order."""

    def other(mapping: Mapping[_K, _V] | None) -> dict[_K, _V]:
        items = list((mapping or {}).items())
        chance.shuffle(items)
        return dict(items)

    return Hints(
        previous=other(hints.previous),
        lag=other(hints.lag),
        rooms=other(hints.rooms),
        node_rooms=other(hints.node_rooms),
        plan=other(hints.plan),
    )


@pytest.mark.parametrize("strategy", ["modulo", "averagely", "averagely_by_circle", "machine_room"])
@given(partitions=st.lists(keys, max_size=60, unique=True), source_count=st.integers(1, 20))
def test_sizes_differ_by_one_at_most_whatever_the_names(
    strategy: str, partitions: list[PartitionKey], source_count: int
) -> None:
    hints = Hints(rooms={key.broker_id: "only" for key in partitions})
    sizes = [len(node) for node in assign(strategy, partitions, source_count, hints)]
    assert max(sizes) - min(sizes) <= 1


@given(partitions=st.lists(keys, max_size=40, unique=True), source_count=st.integers(1, 12), virtual=st.integers(1, 20))
def test_on_the_ring_a_node_that_comes_only_takes_and_one_that_goes_only_gives(
    partitions: list[PartitionKey], source_count: int, virtual: int
) -> None:
    names = [f"node {chr(97 + node)}" for node in range(source_count)]
    fewer = _owners(
        assign("consistent_hash", partitions, source_count, Hints(node_names=names, virtual_nodes=virtual)), names
    )
    for place in range(source_count + 1):
        more_names = [*names[:place], "another", *names[place:]]
        hints = Hints(node_names=more_names, virtual_nodes=virtual)
        more = _owners(assign("consistent_hash", partitions, source_count + 1, hints), more_names)
        assert {key: fewer[key] if name != "another" else name for key, name in more.items()} == more


def _owners(nodes: list[list[PartitionKey]], names: list[str]) -> dict[PartitionKey, str]:
    return {key: name for name, of_node in zip(names, nodes, strict=True) for key in of_node}


@given(case=cases())
def test_with_rooms_nobody_reads_another_room_that_has_nodes(case: Case) -> None:
    partitions, source_count, hints = case
    rooms, node_rooms = hints.rooms or {}, hints.node_rooms or {}
    for strategy in ("machine_room", "machine_room_nearby"):
        nodes = assign(strategy, partitions, source_count, hints)
        for room in set(rooms.values()):
            members = [node for node, of_node in node_rooms.items() if of_node == room] or list(range(source_count))
            sizes = {node: sum(rooms[key.broker_id] == room for key in of_node) for node, of_node in enumerate(nodes)}
            assert all(node in members for node, size in sizes.items() if size)
            assert max(sizes[node] for node in members) - min(sizes[node] for node in members) <= 1


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
