"""What follows a query, with values that are numbers: the newest is written, in order, when it is time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_source.progress.follower import Follower, JobThread, NoAnswer, Waits
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


def test_a_strict_one_waits_no_longer_than_it_may(place: Place) -> None:
    one: Follower[int] = Follower("the place", place.thread, place.write, Waits(call=0.01), strict=True)
    released: list[bool] = []
    place.thread.post(lambda: wait_for(lambda: released, "the release"))
    with pytest.raises(NoAnswer):
        one.follow(1)
    released.append(True)


def test_an_answer_and_an_error_come_back() -> None:
    thread = JobThread("t")
    assert thread.call(threading.get_ident, 30) != threading.get_ident()

    def fail() -> None:
        raise KeyboardInterrupt("no Exception, as a panic of native code")

    with pytest.raises(KeyboardInterrupt, match="no Exception"):
        thread.call(fail, 30)
    assert thread.call(lambda: 2, 30) == 2
    thread.close()


def test_a_wait_has_an_end_and_jobs_an_order() -> None:
    thread, release, done = JobThread("t"), threading.Event(), list[int]()
    with pytest.raises(NoAnswer, match=r"no answer within 0\.01 s"):
        thread.call(lambda: release.wait(30), 0.01)
    for number in range(3):
        thread.post(lambda number=number: done.append(number))  # type: ignore[misc]
    assert done == []
    release.set()
    assert thread.call(lambda: done, 30) == [0, 1, 2]
    thread.close()


def test_a_signal_handler_that_raises_ends_the_wait_and_leaves_nothing_locked() -> None:
    def leave(_signal: int, _frame: FrameType | None) -> None:
        raise SystemExit(0)

    def end_it() -> None:
        time.sleep(0.1)  # a signal that comes just before the wait begins is handled when that ends
        os.kill(os.getpid(), signal.SIGUSR1)
        left.wait(30)

    thread, left = JobThread("t"), threading.Event()
    before = signal.signal(signal.SIGUSR1, leave)
    try:
        with pytest.raises(SystemExit):
            thread.call(end_it, 30)
    finally:
        left.set()
        signal.signal(signal.SIGUSR1, before)
    assert thread.call(lambda: 1, 30) == 1
    thread.close()


def test_a_job_that_hangs_does_not_keep_the_process() -> None:
    code = """
import threading
from spark_source.progress.follower import JobThread
begun = threading.Event()
JobThread("t").post(lambda: (begun.set(), threading.Event().wait()))
begun.wait()
print("ends")
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stdout) == (0, "ends\n"), found.stderr
