"""What is wrong with the order of sink and offsets table is found, and only that."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.exactly_once.order import Positions, Seen, wrong_order

KEYS = ("1:t:0", "1:t:1", "2:t:0")


@st.composite
def in_order(draw: st.DrawFn) -> Seen:
    """Three positions that grow, in each partition by itself; the table may not have heard of anything yet."""
    due, table, sink = {}, {}, {}
    for key in draw(st.lists(st.sampled_from(KEYS), unique=True, min_size=1)):
        due[key], table[key], sink[key] = sorted(28 * draw(st.integers(0, 9)) for _ in range(3))
    return Seen(due, table, sink) if draw(st.booleans()) else Seen({}, {}, sink)


@given(in_order())
def test_positions_that_grow_are_fine(seen: Seen) -> None:
    assert wrong_order(seen) == []


@given(in_order(), st.data())
def test_a_table_that_leads_in_one_partition_is_found(seen: Seen, data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(seen.sink)))
    (said,) = wrong_order(replace(seen, table={**seen.table, key: seen.sink[key] + 28}))
    assert said.startswith(f"{key}: the table leads")
    without: Positions = {other: at for other, at in seen.sink.items() if other != key}
    assert bool(wrong_order(replace(seen, sink=without))) == (key in seen.table)


@given(in_order().filter(lambda seen: bool(seen.table)), st.data())
def test_a_table_that_trails_by_two_batches_in_one_partition_is_found(seen: Seen, data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(seen.due)))
    without: Positions = {other: at for other, at in seen.table.items() if other != key}
    for table in (without, {**seen.table, key: seen.due[key] - 28}):
        (said,) = wrong_order(replace(seen, table=table))
        assert said.startswith(f"{key}: the table trails by more than a batch")


@given(in_order())
def test_at_rest_the_table_may_not_trail_at_all(seen: Seen) -> None:
    trails = {key for key, at in seen.sink.items() if seen.table.get(key, -1) < at}
    assert {said.split(": the")[0] for said in wrong_order(seen, at_rest=True)} == trails
    assert wrong_order(Seen(seen.due, seen.sink, seen.sink), at_rest=True) == []


def test_a_first_batch_without_rows_ended_where_the_query_began() -> None:
    began = {"1:t:0": 280}
    assert wrong_order(Seen(began, {}, {"1:t:0": 308}, began)) == []
    assert len(wrong_order(Seen({"1:t:0": 308}, {}, {"1:t:0": 308}, began))) == 1
