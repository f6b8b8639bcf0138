"""The thread that a slow store may keep: who waits for it, for how long, and what comes back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from types import FrameType

import pytest

from spark_source.progress.job_thread import JobThread, NoAnswer
from tests.waiting import wait_for


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


def test_what_is_to_be_repeated_is_done_later_and_once() -> None:
    thread, done = JobThread("t"), list[str]()
    thread.call(lambda: thread.repeat(lambda: done.append("in vain"), 3600), 30)
    thread.call(lambda: thread.repeat(lambda: done.append("again"), 0.01), 30)
    wait_for(lambda: done, "the repetition")
    assert thread.call(lambda: done, 30) == ["again"]
    thread.close()


def test_it_ends_when_it_is_told_to_and_begins_anew_when_it_is_needed() -> None:
    thread = JobThread("ends when told")
    thread.call(lambda: None, 30)
    thread.close()

    def is_there() -> bool:
        return any(one.name == "ends when told" for one in threading.enumerate())

    wait_for(lambda: not is_there(), "the thread's end")
    assert thread.call(lambda: 1, 30) == 1
    thread.close()
    wait_for(lambda: not is_there(), "the thread's end")


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
from spark_source.progress.job_thread import JobThread
begun = threading.Event()
JobThread("t").post(lambda: (begun.set(), threading.Event().wait()))
begun.wait()
print("ends")
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stdout) == (0, "ends\n"), found.stderr
