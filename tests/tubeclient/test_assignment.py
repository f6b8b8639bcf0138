"""Who reads what: complete, disjoint, the same for every node, whatever the order of the input, with few moves."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tubeclient import ConfigurationError, PartitionKey, assign
from tubeclient.assignment import STRATEGIES, Assignment, Hints, node_of
from tubeclient.assignment.strategies import enough_rows

_K = TypeVar("_K")
_V = TypeVar("_V")


keys = st.builds(
    PartitionKey, st.integers(1, 2**31), st.text("abcXYZ_-9", min_size=1, max_size=8), st.integers(0, 50_000)
)


class Case(NamedTuple):
    """Something to assign, with every hint that a strategy may need."""

    partitions: list[PartitionKey]
    source_count: int
    hints: Hints


@st.composite
def cases(
    draw: st.DrawFn, max_partitions: int = 60, max_nodes: int = 12, max_rows: int = 1000, nodes_before: int = 15
) -> Case:
    """Some partitions have had a node before, among them nodes that are gone; some have lag; rooms are few."""
    partitions = draw(st.lists(keys, max_size=max_partitions, unique=True))
    source_count = draw(st.integers(1, max_nodes))
    rooms = st.sampled_from(["east", "north", "west"])

    def for_each(values: st.SearchStrategy[int]) -> dict[PartitionKey, int]:
        drawn = draw(st.lists(values, min_size=len(partitions), max_size=len(partitions)))
        return dict(zip(partitions, drawn, strict=True))

    before = for_each(st.integers(-1, nodes_before - 1))
    hints = Hints(
        previous={key: node for key, node in before.items() if node >= 0},
        lag={key: rows for key, rows in for_each(st.integers(0, max_rows)).items() if rows},
        rooms={broker_id: draw(rooms) for broker_id in {key.broker_id for key in partitions}},
        node_rooms={node: draw(rooms) for node in range(source_count)},
        plan=for_each(st.integers(0, source_count - 1)),
    )
    return Case(partitions, source_count, hints)


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


@given(partitions=st.lists(keys, max_size=40, unique=True), source_count=st.integers(1, 12), virtual=st.integers(1, 20))
def test_ring_with_changed_nodes(partitions: list[PartitionKey], source_count: int, virtual: int) -> None:
    """On the ring, a joining node only takes partitions, and a leaving node only gives them up."""
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
def test_machine_rooms(case: Case) -> None:
    """Only nodes of a room read its partitions, in equal shares, if the room has nodes."""
    partitions, source_count, hints = case
    rooms, node_rooms = hints.rooms or {}, hints.node_rooms or {}
    for strategy in ("machine_room", "machine_room_nearby"):
        nodes = assign(strategy, partitions, source_count, hints)
        for room in set(rooms.values()):
            members = [node for node, of_node in node_rooms.items() if of_node == room] or list(range(source_count))
            sizes = {node: sum(rooms[key.broker_id] == room for key in of_node) for node, of_node in enumerate(nodes)}
            assert all(node in members for node, size in sizes.items() if size)
            assert max(sizes[node] for node in members) - min(sizes[node] for node in members) <= 1


@pytest.mark.parametrize(("text", "java_hash"), [("2:clicks:10001", 236063147), ("1:orders:0", -1558048252)])
def test_hash_modulo_matches_java(text: str, java_hash: int) -> None:
    """As a JVM 17 printed for String.hashCode() of these texts."""
    for source_count in (1, 2, 3, 7, 16):
        nodes = assign("hash_modulo", [PartitionKey.parse(text)], source_count)
        assert nodes[java_hash % 2**32 % source_count] == [PartitionKey.parse(text)]


def _moved(nodes: Assignment, case: Case) -> set[PartitionKey]:
    """The partitions that could have stayed where they were, and did not."""
    previous = case.hints.previous or {}
    return {
        key
        for node, of_node in enumerate(nodes)
        for key in of_node
        if previous.get(key, node) != node and previous[key] < case.source_count
    }


def _fewest_moves(case: Case, good: Callable[[Sequence[int]], bool]) -> int:
    """Of all assignments that are `good`, given the node of each partition, the fewest moves: all are tried."""
    previous = case.hints.previous or {}
    before = [previous.get(key, case.source_count) for key in case.partitions]
    return min(
        sum(was < case.source_count and was != now for was, now in zip(before, tried, strict=True))
        for tried in itertools.product(range(case.source_count), repeat=len(before))
        if good(tried)
    )


def loads(nodes: Assignment, lag: Mapping[PartitionKey, int]) -> list[int]:
    return [sum(lag.get(key, 0) for key in of_node) for of_node in nodes]


@given(case=cases(max_partitions=7, max_nodes=3, nodes_before=4))
def test_sticky_moves_the_fewest_that_can_be_moved(case: Case) -> None:
    def even(tried: Sequence[int]) -> bool:
        sizes = [tried.count(node) for node in range(case.source_count)]
        return max(sizes) - min(sizes) <= 1

    nodes = assign("sticky", *case)
    assert len(_moved(nodes, case)) == _fewest_moves(case, even)
    assert max(map(len, nodes)) - min(map(len, nodes)) <= 1


@given(case=cases())
def test_sticky_without_previous(case: Case) -> None:
    """Without a previous assignment, sticky starts as modulo and then moves nothing."""
    partitions, source_count, _ = case
    first = assign("sticky", partitions, source_count, Hints(previous={}))
    assert first == assign("modulo", partitions, source_count)
    previous = node_of(first)
    assert assign("sticky", partitions, source_count, Hints(previous=previous)) == first


@given(case=cases())
def test_no_node_has_more_rows_than_backlog_promises(case: Case) -> None:
    partitions, source_count, hints = case
    lag = hints.lag or {}
    most = max(loads(assign("backlog", *case), lag))
    largest = max((lag.get(key, 0) for key in partitions), default=0)
    # Multiplied out, so that whole numbers are compared.
    assert most <= largest or most * (source_count + 1) <= 2 * sum(lag.values())


@given(case=cases(nodes_before=6))
def test_backlog_below_limit(case: Case) -> None:
    """Backlog moves nothing while each node has at most its limit of rows."""
    _, source_count, hints = case
    lag, previous = hints.lag or {}, hints.previous or {}
    partitions = [key for key in case.partitions if previous.get(key, source_count) < source_count]
    kept = [[key for key in sorted(partitions) if previous[key] == node] for node in range(source_count)]
    enough = enough_rows([lag.get(key, 0) for key in partitions], source_count)
    assume(max(loads(kept, lag)) <= enough)
    assert assign("backlog", partitions, source_count, hints) == kept


def test_backlog_limit() -> None:
    """A node's limit is the mean number of rows plus a tenth, or the largest partition if more."""
    assert enough_rows([10] * 20, 2) == 110
    assert enough_rows([10] * 20, 200) == 10
    assert enough_rows([10] * 19, 2) == 104  # 104.5, in whole rows
    keys = [PartitionKey(1, "clicks", number) for number in range(20)]
    before = {key: int(number >= 11) for number, key in enumerate(keys)}
    hints = Hints(lag=dict.fromkeys(keys, 10), previous=before)
    assert assign("backlog", keys, 2, hints) == [keys[:11], keys[11:]]


KEYS = [PartitionKey(1, "a", 0), PartitionKey(1, "a", 1), PartitionKey(2, "a", 0)]
ONE_EACH = dict(zip(KEYS, (0, 1, 1), strict=True))


@pytest.mark.parametrize(
    ("strategy", "hints", "said"),
    [
        (
            "hash",
            Hints(),
            r"'hash' is unknown; use one of averagely, .*, sticky, or your own as package.module:function",
        ),
        ("no.such.module:assign", Hints(), "'no.such.module:assign' cannot be imported: ModuleNotFoundError"),
        (f"{__name__}:nothing", Hints(), "has no nothing"),
        (f"{__name__}:KEYS", Hints(), "is not a function but"),
        ("sticky", Hints(), "sticky needs the hint previous"),
        ("backlog", Hints(), "backlog needs the hint lag"),
        ("machine_room", Hints(rooms={1: "x"}), "rooms has no room for broker 2, so nobody would read its partitions"),
        ("machine_room", Hints(rooms={1: "x", 2: "x"}, node_rooms={0: "x"}), "node_rooms has no room for node 1"),
        ("config", Hints(plan={KEYS[0]: 0}), "'config' gives partition 1:a:1 to no node"),
        (
            "config",
            Hints(plan={**ONE_EACH, KEYS[2]: 2}),
            "partition 2:a:0 to node 2; with sourceCount 2 there are .* 1$",
        ),
        ("config", Hints(plan={**ONE_EACH, PartitionKey(9, "z", 0): 0}), "the unknown partition 9:z:0"),
        ("consistent_hash", Hints(node_names=["x", "x"]), "each of 2 nodes needs its own name"),
        (f"{__name__}:own", Hints(plan={KEYS[0]: 0, KEYS[1]: 1}), "own' gives partition 2:a:0 to no node"),
        (f"{__name__}:own", Hints(plan={PartitionKey(3, "a", 0): 1}), "gives node 1 the unknown partition 3:a:0"),
        (f"{__name__}:own", Hints(virtual_nodes=2), "gives partition 1:a:0 to node 0 and again to node 1"),
        (f"{__name__}:own", Hints(virtual_nodes=3), "returned 3 lists for 2 nodes"),
        (f"{__name__}:own", Hints(plan={KEYS[0]: 9}), r"own' failed: IndexError"),
    ],
)
def test_what_is_wrong_is_said(strategy: str, hints: Hints, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        assign(strategy, KEYS, 2, hints)


def own(keys: Sequence[PartitionKey], source_count: int, hints: Hints) -> Assignment:
    """A user's strategy: the plan, or every partition for each of so many nodes."""
    if hints.plan is None:
        return [list(reversed(keys)) for _ in range(hints.virtual_nodes)]
    nodes: Assignment = [[] for _ in range(source_count)]
    for key, node in hints.plan.items():
        nodes[node].append(key)
    return nodes


def test_custom_strategy() -> None:
    """A custom strategy is called by its module and function name."""
    assert assign(f"{__name__}:own", reversed(KEYS), 1, Hints(virtual_nodes=1)) == [KEYS]
