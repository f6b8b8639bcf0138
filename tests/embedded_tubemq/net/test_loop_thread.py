"""The loop on a thread of its own: results, errors, and an end that leaves nothing behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from embedded_tubemq.net import loop_thread
from embedded_tubemq.net.loop_thread import LoopThread


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    made = LoopThread("loop-under-test")
    yield made
    made.stop()


def test_results_and_errors_come_back(thread: LoopThread) -> None:
    assert thread.call(lambda: threading.current_thread().name) == "loop-under-test"
    assert thread.run(asyncio.sleep(0, "slept")) == "slept"
    with pytest.raises(ZeroDivisionError):
        thread.call(lambda: 1 // 0)


def test_a_call_that_takes_too_long_is_given_up_and_cancelled(
    thread: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()

    async def endless() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    monkeypatch.setattr(loop_thread, "CALL_SECONDS", 0.05)
    with pytest.raises(TimeoutError):
        thread.run(endless())
    assert ended.wait(10)


def test_the_end_cancels_what_still_runs() -> None:
    thread = LoopThread("loop-under-test")
    ended = threading.Event()
    tasks = []

    async def endless() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    async def leave_running() -> None:
        tasks.append(asyncio.create_task(endless()))
        await asyncio.sleep(0)

    thread.run(leave_running())
    thread.stop()
    assert ended.is_set()
    assert all(other.name != "loop-under-test" for other in threading.enumerate())
