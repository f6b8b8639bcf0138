"""The judge finds what is wrong, and only that."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.exactly_once.judge import Place, Row, judge

NUMBERS = st.dictionaries(
    st.integers(0, 50),
    st.builds(Place, st.sampled_from(["1:t:0", "1:t:1", "2:t:0"]), st.integers(0, 1000)),
    max_size=20,
).filter(lambda places: len(set(places.values())) == len(places))


def rows(acknowledged: dict[int, Place]) -> list[Row]:
    return [Row(place, number) for number, place in acknowledged.items()]


@given(NUMBERS)
def test_what_is_there_once_is_whole(acknowledged: dict[int, Place]) -> None:
    verdict = judge(acknowledged, [], rows(acknowledged), rows(acknowledged))
    assert verdict.whole
    assert verdict.held == verdict.in_table == verdict.acknowledged == len(acknowledged)


@given(NUMBERS.filter(bool), st.data())
def test_a_row_too_many_or_too_few_is_found(acknowledged: dict[int, Place], data: st.DataObject) -> None:
    there = rows(acknowledged)
    chosen = data.draw(st.sampled_from(there))
    others = [row for row in there if row != chosen]
    assert judge(acknowledged, [], there, [*there, chosen]).doubled == [chosen]
    assert judge(acknowledged, [], there, others).missing == [chosen]
    for table in ([*there, chosen], others):
        assert not judge(acknowledged, [], there, table).once


def test_a_row_that_nobody_wrote_is_found() -> None:
    stranger = Row(Place("1:t:0", 9), 9)
    verdict = judge({}, [], [], [stranger])
    assert verdict.strange == [stranger]
    assert not verdict.once


def test_what_a_broker_took_and_lost_is_not_whole_and_may_have_been_read() -> None:
    acknowledged = {1: Place("1:t:0", 1), 2: Place("1:t:0", 2)}
    read = rows({1: acknowledged[1]})
    verdict = judge(acknowledged, [], [], read)
    assert verdict.gone == rows(acknowledged)
    assert verdict.gone_and_read == read
    assert verdict.once
    assert not verdict.whole


def test_a_number_sent_again_is_two_messages_that_the_table_must_both_have() -> None:
    both = [Row(Place("1:t:0", 1), 7), Row(Place("2:t:0", 1), 7)]
    verdict = judge({7: both[1].place}, [], both, both)
    assert verdict.whole
    assert verdict.sent_again == [7]
    assert judge({7: both[1].place}, [], both, both[1:]).missing == both[:1]


def test_numbers_without_an_answer_may_have_arrived_or_not() -> None:
    arrived = Row(Place("1:t:0", 1), 1)
    verdict = judge({}, [1, 2], [arrived], [arrived])
    assert verdict.whole
    assert (verdict.unknown, verdict.unheard) == (2, 1)
    assert judge({}, [1, 2], [arrived], []).missing == [arrived]
