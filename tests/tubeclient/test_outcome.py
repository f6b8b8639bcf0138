"""The futures of a producer: where a signal's exception comes, nobody else waits for ever."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import wait
from types import FrameType

import pytest

from tubeclient.net.waiting import Outcome


def test_no_python_runs_between_taking_a_futures_lock_and_what_lets_go_of_it() -> None:
    """Condition's `__enter__` is Python: interrupted in it, it would leave the lock taken."""
    files = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        files.add(frame.f_code.co_filename.rpartition("/")[2])

    outcome: Outcome[int] = Outcome()
    before = sys.gettrace()
    sys.settrace(note)
    try:
        outcome.add_done_callback(lambda _: None)
        outcome.done()
        outcome.set_result(5)
        outcome.result()
        outcome.exception()
    finally:
        sys.settrace(before)
    assert files & {"threading.py", "_base.py"} == {"_base.py"}


def test_it_is_a_future_as_any_other() -> None:
    outcome: Outcome[int] = Outcome()
    with pytest.raises(TimeoutError):
        outcome.result(0.01)
    threading.Timer(0.1, outcome.set_result, (5,)).start()
    assert wait([outcome], 10).done == {outcome}
    assert outcome.result() == 5
