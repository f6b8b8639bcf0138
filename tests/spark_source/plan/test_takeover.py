"""Taking over a backlog: everything is read once, in parts that neighbour each other, and nodes come level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from spark_source.plan.batch_plan import MOST_PARTS, take_over
from tubeclient.keys import INDEX_ENTRY_BYTES as ROW
from tubeclient.keys import OffsetRange, PartitionKey

ByNode = dict[int, list[OffsetRange]]


def key(partition_id: int) -> PartitionKey:
    return PartitionKey(1, "t", partition_id)


def rows_of(partition_id: int, start: int, end: int) -> OffsetRange:
    """A range; offsets in rows."""
    return OffsetRange(key(partition_id), start * ROW, end * ROW)


def rows(ranges: Sequence[OffsetRange]) -> int:
    return sum(one.max_messages for one in ranges)


@st.composite
def assigned(draw: st.DrawFn) -> tuple[ByNode, int]:
    """What up to 6 nodes have to read, some of them nothing, and how many nodes there are."""
    count = draw(st.integers(1, 6))
    by_node: ByNode = {}
    for node in draw(st.lists(st.integers(0, count - 1), unique=True)):
        lengths = draw(st.lists(st.integers(1, 60) | st.integers(500, 2_000), min_size=1, max_size=4))
        starts = [draw(st.integers(0, 50)) for _ in lengths]
        by_node[node] = [
            rows_of(10 * node + n, start, start + length)
            for n, (start, length) in enumerate(zip(starts, lengths, strict=True))
        ]
    return by_node, count


least_rows = st.integers(1, 300)


@given(assigned(), least_rows)
def test_each_offset_is_read_once(given_nodes: tuple[ByNode, int], min_rows: int) -> None:
    by_node, count = given_nodes
    new = take_over(by_node, count, min_rows)
    assert set(new) <= set(range(count))
    assert all(start < end for of_node in new.values() for _, start, end in of_node)
    for of_node in by_node.values():
        for partition, start, end in of_node:
            parts = sorted((one, node) for node, others in new.items() for one in others if one.partition == partition)
            assert parts[0][0].start == start
            assert parts[-1][0].end == end
            assert [one.end for one, _ in parts[:-1]] == [one.start for one, _ in parts[1:]]


@given(assigned(), least_rows)
def test_load_and_parts_are_bounded(given_nodes: tuple[ByNode, int], min_rows: int) -> None:
    """A takeover exceeds no earlier maximum load and splits a partition into four parts at most."""
    by_node, count = given_nodes
    new = take_over(by_node, count, min_rows)
    before = {node: rows(by_node.get(node, [])) for node in range(count)}
    after = {node: rows(new.get(node, [])) for node in range(count)}
    assert max(after.values()) <= max(before.values())
    assert sum(after.values()) == sum(before.values())
    assert all(len({node for part, node in parts}) <= MOST_PARTS for parts in parts_of(new).values())


def parts_of(by_node: Mapping[int, Sequence[OffsetRange]]) -> dict[PartitionKey, list[tuple[OffsetRange, int]]]:
    found: dict[PartitionKey, list[tuple[OffsetRange, int]]] = {}
    for node, of_node in by_node.items():
        for one in of_node:
            found.setdefault(one.partition, []).append((one, node))
    return found


def test_an_idle_node_takes_half() -> None:
    new = take_over({1: [rows_of(0, 100, 200)]}, 2, 10)
    assert new == {0: [rows_of(0, 150, 200)], 1: [rows_of(0, 100, 150)]}


def test_one_partition_is_read_by_up_to_four_nodes() -> None:
    for nodes, sizes in ((2, [50] * 2), (4, [25] * 4), (16, [25] * 4)):
        new = take_over({0: [rows_of(0, 0, 100)]}, nodes, 2)
        assert sorted(map(rows, new.values()), reverse=True) == sizes
