"""The judges of a run find what is wrong and only that: with the rows, and with the order of sink and table."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.exactly_once.judge import Place, Row, judge
from tests.exactly_once.order import Positions, Seen, wrong_order

NUMBERS = st.dictionaries(
    st.integers(0, 50),
    st.builds(Place, st.sampled_from(["1:t:0", "1:t:1", "2:t:0"]), st.integers(0, 1000)),
    min_size=1,
    max_size=20,
).filter(lambda places: len(set(places.values())) == len(places))
KEYS = ("1:t:0", "1:t:1", "2:t:0")


@given(NUMBERS, st.data())
def test_a_row_too_many_or_too_few_or_lost_is_found(acknowledged: dict[int, Place], data: st.DataObject) -> None:
    there = [Row(place, number) for number, place in acknowledged.items()]
    assert judge(acknowledged, [], there, there).whole
    chosen = data.draw(st.sampled_from(there))
    others = [row for row in there if row != chosen]
    assert judge(acknowledged, [], there, [*there, chosen]).doubled == [chosen]
    assert judge(acknowledged, [], there, others).missing == [chosen]
    lost = judge(acknowledged, [], others, there)
    assert (lost.gone, lost.gone_and_read, lost.once, lost.whole) == ([chosen], [chosen], True, False)
    stranger = Row(Place("1:t:9", 9), 9)
    assert judge(acknowledged, [], there, [*there, stranger]).strange == [stranger]


def test_resent_and_unanswered_numbers() -> None:
    """The judge finds no fault in a number that was sent again or got no answer."""
    both = [Row(Place("1:t:0", 1), 7), Row(Place("2:t:0", 1), 7)]
    verdict = judge({7: both[1].place}, [8, 9], both, both)
    assert verdict.whole
    assert (verdict.sent_again, verdict.unknown, verdict.unheard) == ([7], 2, 0)
    assert judge({7: both[1].place}, [], both, both[1:]).missing == both[:1]


@st.composite
def in_order(draw: st.DrawFn) -> Seen:
    """Three positions that grow, in each partition by itself."""
    due, table, sink = {}, {}, {}
    for key in draw(st.lists(st.sampled_from(KEYS), unique=True, min_size=1)):
        due[key], table[key], sink[key] = sorted(28 * draw(st.integers(0, 9)) for _ in range(3))
    return Seen(due, table, sink)


@given(in_order(), st.data())
def test_a_table_that_leads_or_trails_is_found(seen: Seen, data: st.DataObject) -> None:
    assert wrong_order(seen) == wrong_order(Seen({}, {}, seen.sink)) == []
    key = data.draw(st.sampled_from(sorted(seen.sink)))
    [said] = wrong_order(replace(seen, table={**seen.table, key: seen.sink[key] + 28}))
    assert said.startswith(f"{key}: the table leads")
    without: Positions = {other: at for other, at in seen.table.items() if other != key}
    for table in (without, {**seen.table, key: seen.due[key] - 28}):
        [said] = wrong_order(replace(seen, table=table))
        assert said.startswith(f"{key}: the table trails by more than a batch")
    trails = {key for key, at in seen.sink.items() if seen.table[key] < at}
    assert {said.split(": the")[0] for said in wrong_order(seen, at_rest=True)} == trails


def test_first_batch_without_rows() -> None:
    """The judge takes the query's start for the end of a first batch without rows."""
    began = {"1:t:0": 280}
    assert wrong_order(Seen(began, {}, {"1:t:0": 308}, began)) == []
    assert len(wrong_order(Seen({"1:t:0": 308}, {}, {"1:t:0": 308}, began))) == 1
