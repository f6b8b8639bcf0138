"""What a commit changed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from offsets_store import PartitionProgress, PartRead
from tests.tubeclient_cli.dashboard.world import NOW_MS, key, progress, read
from tubeclient_cli.dashboard.commits import commit_facts


def test_partitions_of_one_store_count_by_the_one_that_moved_furthest() -> None:
    before = progress(read(key(0), 10), read(key(1), 10), read(key(10_000), 0))
    after = progress(read(key(0), 15), read(key(1), 30), read(key(10_000), 7))
    facts = commit_facts(3, NOW_MS, before, after)
    assert (facts.rows_read, facts.partitions_moved, facts.rows_back, facts.partitions_back) == (27, 3, 0, 0)


def test_a_move_back_is_told_beside_what_was_read() -> None:
    facts = commit_facts(
        3, NOW_MS, progress(read(key(0), 10), read(key(10_000), 50)), progress(read(key(0), 15), read(key(10_000), 20))
    )
    assert (facts.rows_read, facts.partitions_moved) == (5, 1)
    assert (facts.rows_back, facts.partitions_back) == (30, 1)


def test_nodes_partitions_and_runs_that_changed() -> None:
    parts = (PartRead(0, 0, 28), PartRead(1, 28, 560))
    before = progress(read(key(0), 0, node=0), read(key(1), 0, node=0), read(key(2), 0, node=1), read(key(3), 0))
    after = progress(
        PartitionProgress(key(0), 560, None, 1, 0, parts, "sticky; backlog taken over"),
        read(key(1), 0, node=1),
        read(key(2), 0, node=1),
        read(key(9), 0),
        epoch=8,
    )
    facts = commit_facts(3, NOW_MS, before, after)
    assert facts.changes == ((0, 1, 2),)
    assert (facts.changed_nodes, facts.reason, facts.taken_over) == (2, "sticky; backlog taken over", 1)
    assert (facts.entered, facts.left, facts.new_run) == (1, 1, True)


def test_a_first_commit_read_nothing_that_is_known() -> None:
    facts = commit_facts(0, NOW_MS, None, progress(read(key(0), 500)))
    assert (facts.rows_read, facts.entered, facts.new_run) == (0, 0, False)


@given(st.lists(st.integers(0, 100), min_size=1, max_size=6), st.lists(st.integers(0, 100), min_size=6, max_size=6))
def test_rows_read_and_rows_back_are_those_of_a_change_the_other_way(before: list[int], after: list[int]) -> None:
    was = progress(*(read(key(n), rows) for n, rows in enumerate(before)))
    now = progress(*(read(key(n), rows) for n, rows in enumerate(after[: len(before)])))
    there, back = commit_facts(1, 0, was, now), commit_facts(1, 0, now, was)
    assert (there.rows_read, there.partitions_moved) == (back.rows_back, back.partitions_back)
