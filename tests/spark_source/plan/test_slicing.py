"""Slices of what each node reads: contiguous, disjoint, complete, in order, and the same each time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from spark_source.options.node_options import Slicing
from spark_source.plan.slicing import Slice, cut, slices
from tubeclient.keys import INDEX_ENTRY_BYTES as ROW
from tubeclient.keys import OffsetRange, PartitionKey

ByNode = dict[int, tuple[OffsetRange, ...]]


def rows_of(partition_id: int, start: int, end: int) -> OffsetRange:
    """A range; offsets in rows."""
    return OffsetRange(PartitionKey(1, "t", partition_id), start * ROW, end * ROW)


@st.composite
def nodes(draw: st.DrawFn) -> ByNode:
    """What up to 4 nodes read: up to 4 ranges each, every one with something to read."""
    assigned: ByNode = {}
    for node in draw(st.lists(st.integers(0, 9), unique=True, max_size=4)):
        lengths = draw(st.lists(st.integers(1, 40), min_size=1, max_size=4))
        starts = [draw(st.integers(0, 50)) for _ in lengths]
        assigned[node] = tuple(
            rows_of(10 * node + n, start, start + length)
            for n, (start, length) in enumerate(zip(starts, lengths, strict=True))
        )
    return assigned


some = st.none() | st.integers(1, 60)
groups = st.integers(1, 9)


def rows(ranges: Sequence[OffsetRange]) -> int:
    return sum(one.max_messages for one in ranges)


def joined(slices: Sequence[Sequence[OffsetRange]]) -> list[OffsetRange]:
    """The ranges of `slices` one behind the other, neighbours that touch made one again."""
    whole: list[OffsetRange] = []
    for one in (one for ranges in slices for one in ranges):
        if whole and whole[-1].partition == one.partition and whole[-1].end == one.start:
            whole[-1] = OffsetRange(one.partition, whole[-1].start, one.end)
        else:
            whole.append(one)
    return whole


def of_node(found: Sequence[Slice], node: int) -> list[Slice]:
    return [one for one in found if one.node_id == node]


@given(nodes(), some, groups)
def test_slices_cover_what_each_node_reads_once_and_in_order(
    by_node: ByNode, min_tasks: int | None, reader_groups: int
) -> None:
    found = slices(by_node, Slicing(min_tasks, reader_groups))
    assert {one.node_id for one in found} == set(by_node)
    for node, ranges in by_node.items():
        mine = of_node(found, node)
        assert [one.number for one in mine] == list(range(len(mine)))
        assert joined([one.ranges for one in mine]) == list(ranges)
        assert all(end > start for each in mine for _, start, end in each.ranges)


@given(nodes(), st.integers(1, 60))
def test_there_are_as_many_slices_as_wished_where_groups_and_rows_allow_it(by_node: ByNode, min_tasks: int) -> None:
    wished = min(min_tasks, sum(rows(ranges) for ranges in by_node.values()))
    assert len(slices(by_node, Slicing(min_tasks, 1_000))) == max(wished, len(by_node))


@given(nodes(), st.integers(1, 200), groups)
def test_the_wish_puts_no_partition_into_more_slices_than_there_are_reader_groups(
    by_node: ByNode, min_tasks: int, reader_groups: int
) -> None:
    found = slices(by_node, Slicing(min_tasks, reader_groups))
    readers = Counter(key for each in found for key, _, _ in each.ranges)
    assert max(readers.values(), default=0) <= max(2, reader_groups)


@given(nodes(), some, groups)
def test_neither_the_order_of_nodes_nor_a_second_time_changes_a_slice(
    by_node: ByNode, min_tasks: int | None, reader_groups: int
) -> None:
    backward = dict(reversed(by_node.items()))
    first, second = (slices(each, Slicing(min_tasks, reader_groups)) for each in (by_node, backward))
    assert first == second


@given(nodes(), st.data())
def test_slices_are_of_one_size_but_for_an_entry(by_node: ByNode, data: st.DataObject) -> None:
    for ranges in by_node.values():
        count = data.draw(st.integers(1, rows(ranges)))
        sizes = [rows(each) for each in cut(ranges, count)]
        assert len(sizes) == count
        assert max(sizes) - min(sizes) <= 1


def test_without_options_a_node_is_one_task() -> None:
    by_node = {2: (rows_of(0, 0, 5), rows_of(1, 0, 5)), 0: (rows_of(2, 3, 9),)}
    assert slices(by_node, Slicing(None, 8)) == [
        Slice(0, 0, by_node[0]),
        Slice(0, 2, by_node[2]),
    ]
    assert slices({}, Slicing(5, 8)) == []


def test_whole_partitions_stay_whole_where_the_borders_allow_it() -> None:
    by_node = {0: tuple(rows_of(n, 0, 10) for n in range(6))}
    found = slices(by_node, Slicing(3, 8))
    assert [one.ranges for one in found] == [by_node[0][0:2], by_node[0][2:4], by_node[0][4:6]]


def test_tasks_go_to_nodes_by_what_they_read_and_start_with_each_nodes_first() -> None:
    by_node = {0: (rows_of(0, 0, 30),), 1: (rows_of(1, 0, 10),)}
    found = slices(by_node, Slicing(4, 8))
    assert [(one.node_id, one.number, one.ranges) for one in found] == [
        (0, 0, (rows_of(0, 0, 10),)),
        (1, 0, (rows_of(1, 0, 10),)),
        (0, 1, (rows_of(0, 10, 20),)),
        (0, 2, (rows_of(0, 20, 30),)),
    ]
