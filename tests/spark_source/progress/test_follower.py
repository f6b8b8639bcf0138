"""What follows a query, with values that are numbers: the newest is written, in order, when it is time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_source.progress.follower import Follower, Waits
from spark_source.progress.job_thread import JobThread, NoAnswer
from tests.waiting import wait_for


class Place:
    """Notes what is written; `error` is what a write ends with."""

    def __init__(self) -> None:
        self.thread = JobThread("place")
        self.written: list[int] = []
        self.error: Exception | None = None

    def write(self, value: int) -> None:
        if self.error is not None:
            raise self.error
        self.written.append(value)

    def follower(self, **more: Any) -> Follower[int]:
        return Follower("the place", self.thread, self.write, Waits(retry=3600.0), **more)

    def settle(self) -> None:
        """Until the thread has done what it was given so far."""
        self.thread.call(lambda: None, 30)


@pytest.fixture
def place() -> Iterator[Place]:
    one = Place()
    yield one
    one.thread.close()


@given(st.lists(st.booleans(), min_size=1, max_size=20))
def test_whatever_fails_values_are_written_in_order_and_the_last_one_in_the_end(fails: list[bool]) -> None:
    place = Place()
    one: Follower[int] = Follower("the place", place.thread, place.write, Waits(retry=0.0))
    for value, fail in enumerate(fails):
        place.error = OSError("full") if fail else None
        one.follow(value)
    place.error = None
    assert one.finish(30) is None
    place.thread.close()
    assert place.written == sorted(set(place.written))
    assert place.written[-1] == len(fails) - 1


@pytest.mark.parametrize("strict", [False, True])
def test_the_interval_is_kept_unless_it_is_to_be_at_once(place: Place, strict: bool) -> None:
    one = place.follower(strict=strict, interval_seconds=3600.0)
    for value, at_once in ((1, False), (2, False), (3, True), (4, False)):
        one.follow(value, at_once=at_once)
        place.settle()
    assert place.written == [1, 3]
    assert one.finish(30) is None
    assert place.written == [1, 3, 4]


@pytest.mark.parametrize("strict", [False, True])
def test_what_is_written_is_not_written_again(place: Place, strict: bool) -> None:
    one = place.follower(strict=strict)
    for _ in range(3):
        one.follow(7, at_once=True)
        place.settle()
    assert one.finish(30) is None
    assert place.written == [7]


def test_the_error_that_ends_it_is_raised_from_then_on_and_nothing_more_is_written(place: Place) -> None:
    one = place.follower(ends_by=KeyError)
    place.error = KeyError("superseded")
    one.follow(1)
    place.settle()
    place.error = None
    with pytest.raises(KeyError, match="superseded"):
        one.follow(2)
    with pytest.raises(KeyError, match="superseded"):
        one.check()
    assert place.written == []


def test_the_end_says_why_the_newest_is_not_written(place: Place) -> None:
    one = place.follower()
    assert one.finish(30) is None  # there was nothing
    place.error = OSError("full")
    one.follow(1)
    assert one.finish(30) == "full"


def test_a_strict_one_raises_and_gives_up_what_failed(place: Place) -> None:
    one = place.follower(strict=True)
    place.error = OSError("full")
    with pytest.raises(OSError, match="full"):
        one.follow(1)
    place.error = None
    assert one.finish(30) is None
    assert place.written == []


def test_a_strict_one_waits_no_longer_than_it_may(place: Place) -> None:
    one: Follower[int] = Follower("the place", place.thread, place.write, Waits(call=0.01), strict=True)
    released: list[bool] = []
    place.thread.post(lambda: wait_for(lambda: released, "the release"))
    with pytest.raises(NoAnswer):
        one.follow(1)
    released.append(True)
