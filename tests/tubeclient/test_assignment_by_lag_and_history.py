"""sticky and backlog: what they promise of balance, and that they move no more than that takes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

from hypothesis import assume, given

from tests.tubeclient.assignment_cases import Case, cases
from tubeclient import PartitionKey, assign
from tubeclient.assignment import Assignment, Hints, node_of
from tubeclient.assignment.strategies import enough_rows


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


@given(case=cases())
def test_sticky_sizes_differ_by_one_at_most(case: Case) -> None:
    sizes = [len(of_node) for of_node in assign("sticky", *case)]
    assert max(sizes) - min(sizes) <= 1


@given(case=cases(max_partitions=7, max_nodes=3, nodes_before=4))
def test_sticky_moves_the_fewest_that_can_be_moved(case: Case) -> None:
    def even(tried: Sequence[int]) -> bool:
        sizes = [tried.count(node) for node in range(case.source_count)]
        return max(sizes) - min(sizes) <= 1

    assert len(_moved(assign("sticky", *case), case)) == _fewest_moves(case, even)


@given(case=cases())
def test_sticky_with_nothing_before_is_modulo_and_then_stays(case: Case) -> None:
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
def test_backlog_leaves_everything_where_it_is_while_every_node_has_at_most_enough(case: Case) -> None:
    _, source_count, hints = case
    lag, previous = hints.lag or {}, hints.previous or {}
    partitions = [key for key in case.partitions if previous.get(key, source_count) < source_count]
    kept = [[key for key in sorted(partitions) if previous[key] == node] for node in range(source_count)]
    enough = enough_rows([lag.get(key, 0) for key in partitions], source_count)
    assume(max(loads(kept, lag)) <= enough)
    assert assign("backlog", partitions, source_count, hints) == kept


def test_enough_is_a_tenth_above_the_mean_or_the_largest_partition() -> None:
    assert enough_rows([10] * 20, 2) == 110
    assert enough_rows([10] * 20, 200) == 10
    assert enough_rows([10] * 19, 2) == 104  # 104.5, in whole rows
    keys = [PartitionKey(1, "clicks", number) for number in range(20)]
    before = {key: int(number >= 11) for number, key in enumerate(keys)}
    hints = Hints(lag=dict.fromkeys(keys, 10), previous=before)
    assert assign("backlog", keys, 2, hints) == [keys[:11], keys[11:]]
