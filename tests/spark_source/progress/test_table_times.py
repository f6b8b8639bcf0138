"""When the offsets table is written: how often, and what is done at the end; in memory."""

from __future__ import annotations

import os
import signal
import time
from types import FrameType

import pytest

from tests.spark_source.fake_storage import (
    FAULTS,
    LONG,
    SHORT,
    FakeStorage,
    at,
    both,
    broken,
    let_it_work,
    open_planner,
)
from tests.spark_source.fakes import FakeClock, FakeCluster, planner_with
from tests.waiting import wait_for


@pytest.mark.parametrize("mode", ["strict", "best_effort"])
def test_commits_keep_their_interval_and_the_last_position_is_written(storage: FakeStorage, mode: str) -> None:
    clock = FakeClock()
    one = open_planner(storage, mode, clock=clock, offsetCommitInterval="10s")

    def told(rows: int) -> None:
        one.complete(at(rows))
        let_it_work(one)

    for rows in range(1, 26):  # one batch a second
        told(rows)
        clock.now += 1
    assert storage.commits == [both(1), both(11), both(21)]
    told(25)
    assert len(storage.commits) == 3
    clock.now += 10
    told(25)  # no new batch: the interval is over all the same
    assert storage.commits[3:] == [both(25)]
    told(25)
    told(26)
    one.close()
    assert storage.commits[4:] == [both(26)]
    one.close()
    assert len(storage.commits) == 5


@pytest.mark.parametrize("mode", ["strict", "best_effort"])
@pytest.mark.parametrize("interval", ["0s", "1h"])
def test_available_now_leaves_nothing_behind(storage: FakeStorage, mode: str, interval: str) -> None:
    one = open_planner(storage, mode, offsetCommitInterval=interval)
    storage.before_write = lambda: time.sleep(0.1)  # nothing hangs on its length
    one.freeze_target()
    start = at(1)
    while (end := one.latest(start, 60)) != start:
        start = end
    assert start == at(100)
    assert storage.positions == both(100)
    if mode == "strict":  # best effort may drop what is in the middle
        assert storage.commits == ([both(1), both(61), both(100)] if interval == "0s" else [both(1), both(100)])


@pytest.mark.parametrize("fault", ["fails", "hangs"])
def test_available_now_waits_for_a_broken_table_once(
    storage: FakeStorage, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    """With several sources Spark asks this one on while the others have something to read."""
    one = open_planner(storage, "best_effort", SHORT)
    one.freeze_target()
    storage.before_write = FAULTS[fault](storage)
    for _ in range(100):
        assert one.latest(at(100), None) == at(100)
    assert sum("could not be written" in record.getMessage() for record in caplog.records) == 1
    assert storage.hanging == (fault == "hangs")


def test_a_commit_that_the_end_of_the_process_breaks_off_is_made_then(storage: FakeStorage) -> None:
    """Spark ends the planner by a signal, whose handler raises wherever the planner is."""

    def leave(_signal: int, _frame: FrameType | None) -> None:
        raise SystemExit(0)

    def end_the_process() -> None:
        time.sleep(0.1)  # a signal that comes just before the wait begins is handled when that ends
        storage.before_write = lambda: None
        os.kill(os.getpid(), signal.SIGUSR1)
        wait_for(lambda: left, "the signal")
        broken()

    left: list[bool] = []
    one = open_planner(storage, "strict")
    storage.before_write = end_the_process
    before = signal.signal(signal.SIGUSR1, leave)
    try:
        with pytest.raises(SystemExit):
            one.complete(at(7))
    finally:
        signal.signal(signal.SIGUSR1, before)
    left.append(True)
    assert storage.commits == []
    one.close()
    assert storage.commits == [both(7)]


def test_the_group_is_given_back_when_the_last_position_is_written(storage: FakeStorage) -> None:
    """Else the next run could begin before it."""
    cluster = FakeCluster(rows=(0, 100))
    one = planner_with(storage.table, LONG, cluster, None, offsetsTable="/m", offsetsTableMode="best_effort")
    held: list[bool] = []
    one.complete(at(1))
    wait_for(lambda: storage.commits, "the first commit")

    def look() -> None:
        time.sleep(0.05)  # time enough to be too late
        held.append("leave" not in cluster.calls)

    storage.before_write = look
    one.complete(at(2))
    one.close()
    assert held == [True]
    assert "leave" in cluster.calls
