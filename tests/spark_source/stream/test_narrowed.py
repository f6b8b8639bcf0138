"""Ranges that filters narrow have every message that can match."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import datasource as spark

from spark_source.cluster.pattern_membership import NOTHING
from spark_source.offsets.offsets import Offsets
from spark_source.options.given import parse_options
from spark_source.plan.pushed import Interval, Pushed, pushed
from spark_source.stream.narrowed import narrowed
from tubeclient.errors import CorruptMessage, NoMessageTime, TubeError
from tubeclient.keys import PartitionKey

KEY = PartitionKey(1, "clicks", 0)
MINUTE_US = 60_000_000
DISORDER = 3
FIRST = 29_000_000
"""A minute since 1970."""


def options(**more: str) -> Any:
    return parse_options({"masterServers": "m:1", "consumerGroup": "g", "subscribe": "clicks", **more})


@dataclass
class Times:
    """A lookup that gives any place that a search by time may find."""

    minutes: list[int]
    draw: Any

    def offsets_at(self, view: Any, wanted: Mapping[PartitionKey, int], **_: Any) -> dict[PartitionKey, int | None]:
        minutes = self.minutes

        def place(minute: int) -> int | None:
            fits = [
                at
                for at in range(len(minutes) + 1)
                if (at == 0 or minutes[at - 1] < minute) and (at == len(minutes) or minutes[at] >= minute)
            ]
            drawn: int = self.draw(st.sampled_from(fits))
            return None if drawn == len(minutes) else drawn * 28

        return {key: place(at_ms // 60_000) for key, at_ms in wanted.items()}


@st.composite
def disordered(draw: st.DrawFn) -> list[int]:
    """Minutes, of which none is older than one before it by more than DISORDER."""
    minutes: list[int] = []
    for _ in range(draw(st.integers(0, 8))):
        newest = max(minutes, default=FIRST)
        minutes.append(draw(st.integers(newest - DISORDER, newest + 4)))
    return minutes


@settings(max_examples=1_000)
@given(disordered(), st.integers(-6, 12), st.integers(-1, 4), st.data())
def test_messages_of_the_times_are_within(minutes: list[int], low: int, more: int, data: st.DataObject) -> None:
    # In zones of local mean time a minute of the producers' clocks begins at some other second.
    second_us, low_us, high_us = data.draw(
        st.tuples(*[st.integers(0, 59)] * 3).map(lambda all: [s * 10**6 for s in all])
    )
    wanted = Interval((FIRST + low) * MINUTE_US + low_us, (FIRST + low + more) * MINUTE_US + high_us)
    sides = data.draw(st.sampled_from([wanted, Interval(wanted.low), Interval(None, wanted.high)]))
    start, end = Offsets({KEY: 0}), Offsets({KEY: len(minutes) * 28})
    asked = options(messageTimeDisorder=f"{DISORDER}m")
    lookup: Any = Times(minutes, data.draw)
    begin, stop = narrowed(start, end, Pushed(times_us=sides), (), asked, lookup, NOTHING, {})
    assert 0 <= begin[KEY] <= stop[KEY] <= end[KEY]
    for number, minute in enumerate(minutes):
        time_us = minute * MINUTE_US + second_us
        if (sides.low or 0) <= time_us <= (sides.high or time_us):
            assert begin[KEY] <= number * 28 < stop[KEY]


def test_times_in_order_are_found_to_the_minute() -> None:
    class InOrder:
        def offsets_at(self, view: Any, wanted: Mapping[PartitionKey, int], **_: Any) -> Any:
            return {key: at_ms // 60_000 % FIRST * 28 for key, at_ms in wanted.items()}

    lookup: Any = InOrder()
    both = narrowed(
        Offsets({KEY: 0}),
        Offsets({KEY: 2800}),
        Pushed(times_us=Interval((FIRST + 20) * MINUTE_US, (FIRST + 29) * MINUTE_US)),
        (),
        options(messageTimeDisorder="0s"),
        lookup,
        NOTHING,
        {},
    )
    assert [one[KEY] for one in both] == [20 * 28, 30 * 28]


@pytest.mark.parametrize("error", [NoMessageTime("no times", partition=str(KEY)), CorruptMessage("damaged")])
def test_without_a_known_disorder_or_times_all_is_read(error: TubeError) -> None:
    """A damaged message may be before the start, and then ends no read."""

    class Timeless:
        def offsets_at(self, *_: Any, **__: Any) -> Any:
            raise error

    wanted = Pushed(times_us=Interval(FIRST * MINUTE_US, FIRST * MINUTE_US))
    start, end, lookup = Offsets({KEY: 0}), Offsets({KEY: 2800}), Timeless()
    for asked in (options(), options(messageTimeDisorder="1m")):
        assert narrowed(start, end, wanted, (), asked, lookup, NOTHING, {}) == (start, end)  # type: ignore[arg-type]


def test_no_time_is_looked_for_where_nothing_is_read() -> None:
    wanted = Pushed(times_us=Interval(FIRST * MINUTE_US, FIRST * MINUTE_US))
    nothing = Offsets({KEY: 2800})
    lookup: Any = None
    asked = options(messageTimeDisorder="1m")
    assert narrowed(nothing, nothing, wanted, (), asked, lookup, NOTHING, {}) == (nothing, nothing)


@given(st.integers(0, 400), st.integers(0, 400), st.booleans())
def test_offsets_that_are_known_narrow(low: int, high: int, known: bool) -> None:
    start, end = Offsets({KEY: 56}), Offsets({KEY: 280})
    stores = {KEY.store} if known else set()
    lookup: Any = None
    begin, stop = narrowed(start, end, Pushed(offsets=Interval(low, high)), stores, options(), lookup, NOTHING, {})
    read = set(range(begin[KEY], stop[KEY], 28))
    whole = set(range(56, 280, 28))
    assert read == ({at for at in whole if low <= at <= high} if known else whole)


def test_other_partitions_stay_with_nothing_to_read() -> None:
    other = PartitionKey(1, "clicks", 1)
    start, end = Offsets({KEY: 0, other: 28}), Offsets({KEY: 280, other: 280})

    matching, _ = pushed([spark.EqualTo(("partition",), 1)])
    lookup: Any = None
    begin, stop = narrowed(start, end, matching, (), options(), lookup, NOTHING, {})
    assert (dict(begin), dict(stop)) == ({KEY: 0, other: 28}, {KEY: 0, other: 280})


@pytest.mark.parametrize(("loss_fails", "begins"), [("true", 28 * 60), ("false", 0)])
def test_offsets_narrow_only_where_each_row_has_its_own(loss_fails: str, begins: int) -> None:
    """Where messages lack in the middle of a pack, its rows have no offset; of the pack's end alone they would have."""
    asked, lookup = options(failOnDataLoss=loss_fails), object()
    start, end = Offsets({KEY: 0}), Offsets({KEY: 2800})
    begin, stop = narrowed(start, end, Pushed(offsets=Interval(28 * 60)), {KEY.store}, asked, lookup, NOTHING, {})  # type: ignore[arg-type]
    assert (begin[KEY], stop[KEY]) == (begins, 2800)
