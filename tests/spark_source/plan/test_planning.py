"""Planning: windows by store, a fair and exact share of the limit, never backward, never past the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from spark_source.offsets.offsets import Offsets
from spark_source.plan.planning import nodes_by_store, plan, ranges
from tubeclient.assignment import assign, node_of
from tubeclient.keys import INDEX_ENTRY_BYTES as ROW
from tubeclient.keys import OffsetRange, PartitionKey, StoreBounds, StoreKey
from tubeclient.positions.stores import StoreGrowth


class Case(NamedTuple):
    """A cluster at one moment; positions may lie outside of the bounds."""

    start: Offsets
    partitions: list[PartitionKey]
    bounds: dict[StoreKey, StoreBounds]


def key(text: str) -> PartitionKey:
    return PartitionKey.parse(text)


A0, A1, B0, B1 = key("1:t:0"), key("1:t:1"), key("1:t:10000"), key("1:t:10001")
A, B = A0.store, B0.store


@st.composite
def cases(draw: st.DrawFn, *, tidy: bool = False) -> Case:
    """Up to 4 stores of up to 3 partitions; `tidy`: every partition known, readable and within the bounds."""
    bounds: dict[StoreKey, StoreBounds] = {}
    start: dict[PartitionKey, int] = {}
    partitions = []
    for store in range(draw(st.integers(1, 4))):
        name = StoreKey(1 + store % 2, "t", store)
        low = draw(st.integers(0, 5))
        high = low + draw(st.integers(0, 12))
        if tidy or draw(st.booleans()):
            bounds[name] = StoreBounds(low * ROW, high * ROW)
        for n in range(draw(st.integers(1, 3))):
            one = PartitionKey(name.broker_id, "t", store * 10_000 + n)
            if tidy or draw(st.booleans()):
                start[one] = ROW * draw(st.integers(low, high) if tidy else st.integers(0, 20))
            if tidy or draw(st.booleans()):
                partitions.append(one)
    return Case(Offsets.of(start), partitions, bounds)


limits = st.none() | st.integers(1, 30)


def union_rows(start: Offsets, end: Offsets, bounds: Mapping[StoreKey, StoreBounds]) -> int:
    """The index entries that a batch touches, each once, in what the brokers hold; counted the slow way."""
    touched = set()
    for partition, until in end.items():
        for at in range(start.get(partition, until), until, ROW):
            if at >= bounds[partition.store].min_offset:
                touched.add((partition.store, at))
    return len(touched)


@given(cases(), limits)
def test_never_backward_never_past_the_end(case: Case, limit: int | None) -> None:
    end = plan(case.start, case.partitions, case.bounds, limit)
    for partition, at in case.start.items():
        assert end[partition] >= at
        if end[partition] > at:
            assert partition in case.partitions
            assert end[partition] <= case.bounds[partition.store].max_offset
    for partition in end.keys() - case.start.keys():
        assert end[partition] == case.bounds[partition.store].min_offset


@given(cases(tidy=True), st.integers(1, 60))
def test_and_exactly_as_many_while_there_are_enough(case: Case, limit: int) -> None:
    end = plan(case.start, case.partitions, case.bounds, limit)
    newest = Offsets.of({key: case.bounds[key.store].max_offset for key in case.start})
    backlog = union_rows(case.start, newest, case.bounds)
    assert union_rows(case.start, end, case.bounds) == min(limit, backlog)


@given(cases(), limits)
def test_nothing_new_gives_start_itself(case: Case, limit: int | None) -> None:
    end = plan(case.start, case.partitions, case.bounds, limit)
    assert (end == case.start) == (end is case.start)


@given(cases(), limits)
def test_repeated_batches_arrive_and_stop(case: Case, limit: int | None) -> None:
    """Whoever is readable ends at its store's end, and then there is nothing new."""
    at = case.start
    for _ in range(4 * 3 * 20 + 2):
        following = plan(at, case.partitions, case.bounds, limit)
        if following is at:
            break
        at = following
    assert plan(at, case.partitions, case.bounds, limit) is at
    for partition in case.partitions:
        if partition.store in case.bounds:
            assert at[partition] >= case.bounds[partition.store].max_offset


def test_new_partition_enters_at_first_offset() -> None:
    """A new partition enters at its store's first offset and is read in the next batch."""
    bounds = {A: StoreBounds(2 * ROW, 6 * ROW), B: StoreBounds(3 * ROW, 5 * ROW)}
    start = Offsets.of({A0: 6 * ROW})
    entered = plan(start, [A0, B0], bounds, None)
    assert entered == {A0: 6 * ROW, B0: 3 * ROW}
    assert ranges(start, entered, nodes_by_store({A0: 0, B0: 0})) == {}
    read = plan(entered, [A0, B0], bounds, None)
    assert ranges(entered, read, nodes_by_store({A0: 0, B0: 0})) == {0: [(B0, 3 * ROW, 5 * ROW)]}


def entered_at(start: Offsets, *ends: tuple[int, int]) -> int:
    """The row at which partition 1 enters a store that holds the rows 2 to 9."""
    growth = {A: StoreGrowth(1, 9 * ROW, tuple((last, row * ROW) for last, row in ends))}
    return plan(start, [A0, A1], {A: StoreBounds(2 * ROW, 9 * ROW)}, 0, growth)[A1] // ROW


def test_new_partition_with_a_proven_start() -> None:
    """A new partition enters where its messages are proven to begin."""
    in_front = Offsets.of({A0: 8 * ROW})
    assert entered_at(in_front, (0, 6)) == 6
    assert entered_at(in_front, (1, 6)) == 2
    assert entered_at(in_front, (0, 1)) == 2


def test_but_never_in_front_of_the_others() -> None:
    assert entered_at(Offsets.of({A0: 4 * ROW}), (0, 6)) == 4
    assert entered_at(Offsets.of({A0: 4 * ROW, key("1:t:2"): 5 * ROW}), (0, 6)) == 5
    assert entered_at(Offsets.of({B0: 8 * ROW}), (0, 6)) == 2


def test_a_partition_that_is_gone_keeps_its_place() -> None:
    start = Offsets.of({A0: ROW, B0: ROW})
    assert plan(start, [A0], {A: StoreBounds(0, ROW), B: StoreBounds(0, 9 * ROW)}, None) is start
    assert plan(start, [A0, B0], {A: StoreBounds(0, ROW)}, None) is start


@given(cases(), limits, st.integers(1, 5), st.sampled_from(["modulo", "hash_modulo"]))
def test_ranges_cover_the_batch_once(case: Case, limit: int | None, nodes: int, strategy: str) -> None:
    end = plan(case.start, case.partitions, case.bounds, limit)
    assume(end)
    assignment = assign(strategy, end, nodes)
    assigned = ranges(case.start, end, nodes_by_store(node_of(assignment)))
    assert all(assigned.values())
    assert all(key in assignment[node] for node, of_node in assigned.items() for key, _, _ in of_node)
    flat = [OffsetRange(*one) for of_node in assigned.values() for one in of_node]
    assert len({one.partition for one in flat}) == len(flat)
    moved = {key: at - case.start[key] for key, at in end.items() if case.start.get(key, at) != at}
    assert {one.partition: one.end - one.start for one in flat} == moved


def test_unassigned_partition_is_an_error() -> None:
    """Planning raises an error for a range whose partition no node has."""
    with pytest.raises(KeyError):
        ranges(Offsets.of({A0: 0}), Offsets.of({A0: ROW}), nodes_by_store({B0: 0}))
    three = {PartitionKey(1, "t", number): 0 for number in range(3)}
    for missing in three:
        others = nodes_by_store({key: 0 for key in three if key != missing})
        with pytest.raises(KeyError):
            ranges(Offsets.of(three), Offsets.of(dict.fromkeys(three, ROW)), others)
