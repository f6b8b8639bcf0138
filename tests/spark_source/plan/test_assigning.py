"""When partitions are assigned anew between batches, and by what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spark_source.offsets.offsets import Offsets, PartitionSet
from spark_source.plan.batch_plan import Assigner, PartitionAssignment
from tests.spark_source.fakes import ROW, key
from tubeclient.assignment import NO_HINTS, Assignment, Hints
from tubeclient.keys import PartitionKey

KEYS = [PartitionKey(1, "t", number) for number in range(4)]
FOUR = PartitionSet(KEYS)


class Told:
    """What an assigner asks and tells."""

    def __init__(self, before: Mapping[PartitionKey, int] | None = None) -> None:
        self.before = before or {}
        self.asked = 0
        self.assignments: list[PartitionAssignment] = []

    def assigner(self, strategy: str, source_count: int = 2) -> Assigner:
        def ask() -> Mapping[PartitionKey, int]:
            self.asked += 1
            return self.before

        return Assigner(strategy, NO_HINTS, source_count, ask, self.assignments.append)


def at(*rows: int) -> Offsets:
    return Offsets({one: number * ROW for one, number in zip(KEYS, rows, strict=False)})


def numbers(assignment: PartitionAssignment) -> list[list[int]]:
    return [[one.partition_id for one in of_node] for of_node in assignment.by_node]


def test_what_needs_no_history_asks_for_none() -> None:
    told = Told({KEYS[0]: 1})
    assigner = told.assigner("modulo")
    first = assigner.of_batch(FOUR, at(0, 0, 0, 0), at(9, 9, 9, 9))
    assert numbers(first) == [[0, 2], [1, 3]]
    assert assigner.of_batch(FOUR, at(9, 9, 9, 9), at(9, 9, 9, 99)) is first
    assert (told.asked, told.assignments) == (0, [first])


def test_sticky_goes_on_between_assignments() -> None:
    """sticky starts from the previous run's nodes and then from its own last assignment."""
    told = Told({KEYS[0]: 1, KEYS[1]: 1, KEYS[2]: 5})
    assigner = told.assigner("sticky")
    assert told.asked == 1  # while a table that cannot be read may still end the query
    assert numbers(assigner.of_batch(PartitionSet(KEYS[:3]), at(0, 0, 0), at(0, 0, 0))) == [[2], [0, 1]]
    assert numbers(assigner.of_batch(FOUR, at(0, 0, 0, 0), at(0, 0, 0, 0))) == [[2, 3], [0, 1]]
    assert (told.asked, len(told.assignments)) == (1, 2)
    fewer = Told(assigner.of_batch(FOUR, at(0, 0, 0, 0), at(0, 0, 0, 0)).node_of).assigner("sticky", source_count=3)
    assert numbers(fewer.of_batch(FOUR, at(0, 0, 0, 0), at(0, 0, 0, 0))) == [[2, 3], [0], [1]]


def test_backlog_goes_by_what_each_batch_has_to_read() -> None:
    told = Told()
    assigner = told.assigner("backlog")
    first = assigner.of_batch(FOUR, at(0, 0, 0, 0), at(90, 30, 30, 30))
    assert numbers(first) == [[0], [1, 2, 3]]
    assert assigner.of_batch(FOUR, at(0, 0, 0, 0), at(90, 30, 30, 30)) is first
    # Even enough: nothing moves, and nobody is told.
    second = assigner.of_batch(FOUR, at(90, 30, 30, 30), at(180, 60, 60, 60))
    assert (second.by_node, told.assignments) == (first.by_node, [first])
    third = assigner.of_batch(FOUR, at(180, 60, 60, 60), at(180, 100, 100, 100))
    assert numbers(third) == [[0, 3], [1, 2]]
    assert told.assignments == [first, third]


def test_partitions_known_only_from_offsets() -> None:
    """Strategies also assign partitions that only the offsets name."""
    known = Offsets({**at(9, 9, 9, 9), key("1:gone:0"): 28})
    for strategy in ("modulo", "sticky", "backlog"):
        assigner = Told().assigner(strategy)
        assert key("1:gone:0") in assigner.of_batch(FOUR, known, known).node_of
        assert key("1:gone:0") not in assigner.of_batch(FOUR, at(9, 9, 9, 9), at(9, 9, 9, 10)).node_of


def by_most_rows(keys: Sequence[PartitionKey], source_count: int, hints: Hints) -> Assignment:
    """All to node 0, but the one with most rows to the node after the one that it had."""
    assert hints.lag is not None
    assert hints.previous is not None
    most = max(keys, key=lambda one: (hints.lag or {}).get(one, 0))
    node = (hints.previous.get(most, 0) + 1) % source_count
    return [[one for one in keys if (node if one == most else 0) == number] for number in range(source_count)]


def test_custom_strategy() -> None:
    """A custom strategy gets the lag and the previous assignment before each batch."""
    assigner = Told({KEYS[1]: 1}).assigner(f"{__name__}:by_most_rows", source_count=3)
    assert numbers(assigner.of_batch(FOUR, at(0, 0, 0, 0), at(1, 9, 0, 0))) == [[0, 2, 3], [], [1]]
    assert numbers(assigner.of_batch(FOUR, at(1, 9, 0, 0), at(1, 9, 0, 7))) == [[0, 1, 2], [3], []]
