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

from spark_source.progress.latest_writer import LatestWriter, NoAnswer, Waits


class Place:
    """Notes what is written; `error` is what a write ends with."""

    def __init__(self) -> None:
        self.written: list[int] = []
        self.error: Exception | None = None
        self.made: list[LatestWriter[int]] = []

    def write(self, value: int) -> None:
        if self.error is not None:
            raise self.error
        self.written.append(value)

    def writer(self, retry: float = 3600.0, **more: Any) -> LatestWriter[int]:
        self.made.append(LatestWriter("the place", self.write, Waits(retry=retry), **more))
        return self.made[-1]


@pytest.fixture
def place() -> Iterator[Place]:
    one = Place()
    yield one
    for writer in one.made:
        writer.close()


@given(fails=st.lists(st.booleans(), min_size=1, max_size=20), keeps_up=st.booleans())
def test_values_are_written_in_order(fails: list[bool], keeps_up: bool) -> None:
    """The writer writes values in order and the last one in any case, whatever fails."""
    place = Place()
    one = place.writer(retry=0.0, keeps_up=keeps_up)
    for value, fail in enumerate(fails):
        place.error = OSError("full") if fail else None
        one.put(value)
    place.error = None
    assert one.finish(30) is None
    one.close()
    assert place.written == sorted(set(place.written))
    assert place.written[-1] == len(fails) - 1
    if keeps_up and not any(fails):
        assert place.written == list(range(len(fails)))


def test_final_error_stops_writing(place: Place) -> None:
    """The writer raises its final error on every later call and writes nothing more."""
    one = place.writer(ends_by=KeyError)
    place.error = KeyError("superseded")
    one.put(1)
    one.call(lambda: None, 30)
    place.error = None
    with pytest.raises(KeyError, match="superseded"):
        one.put(2)
    with pytest.raises(KeyError, match="superseded"):
        one.check()
    assert place.written == []


@pytest.mark.parametrize("fails", [True, False])
def test_interval_between_writes(place: Place, fails: bool) -> None:
    """The writer waits between two writes or tries until it is finished."""
    one = place.writer(interval_seconds=3600.0)
    place.error = OSError("full") if fails else None
    one.put(1)
    one.call(lambda: None, 30)
    place.error = None
    one.put(2)
    one.call(lambda: None, 30)
    assert place.written == ([] if fails else [1])
    assert one.finish(30) is None
    assert place.written[-1] == 2


def test_an_answer_and_an_error_come_back(place: Place) -> None:
    one = place.writer()
    assert one.call(threading.get_ident, 30) != threading.get_ident()

    def fail() -> None:
        raise KeyboardInterrupt("no Exception, as a panic of native code")

    with pytest.raises(KeyboardInterrupt, match="no Exception"):
        one.call(fail, 30)
    release = threading.Event()
    with pytest.raises(NoAnswer, match=r"no answer within 0\.01 s"):
        one.call(lambda: release.wait(30), 0.01)
    release.set()
    assert one.call(lambda: 2, 30) == 2


def test_signal_handler_that_raises(place: Place) -> None:
    """A signal handler that raises ends the wait and leaves nothing locked."""

    def leave(_signal: int, _frame: FrameType | None) -> None:
        raise SystemExit(0)

    def end_it() -> None:
        time.sleep(0.1)  # a signal that comes just before the wait begins is handled when that ends
        os.kill(os.getpid(), signal.SIGUSR1)
        left.wait(30)

    one, left = place.writer(), threading.Event()
    before = signal.signal(signal.SIGUSR1, leave)
    try:
        with pytest.raises(SystemExit):
            one.call(end_it, 30)
    finally:
        left.set()
        signal.signal(signal.SIGUSR1, before)
    assert one.call(lambda: 1, 30) == 1


def test_a_write_that_hangs_does_not_keep_the_process() -> None:
    code = """
import threading
from spark_source.progress.latest_writer import LatestWriter
begun = threading.Event()
LatestWriter("a place", lambda _: (begun.set(), threading.Event().wait())).put(1)
begun.wait()
print("ends")
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stdout) == (0, "ends\n"), found.stderr
