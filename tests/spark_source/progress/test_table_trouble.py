"""What the planner does with an offsets table that fails, hangs or is slow; in memory, and on a disk."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offsets_store import OffsetsTableError, SupersededRun
from spark_source.progress.latest_writer import Waits
from tests.examples import examples
from tests.spark_source.as_spark import JsonPlanner
from tests.spark_source.fake_storage import FAULTS, SHORT, FakeStorage, at, both, broken, lost_race, open_planner
from tests.spark_source.fakes import FakeCluster, in_rows, planner
from tests.waiting import wait_for


def drive(one: JsonPlanner) -> list[object]:
    """All answers of a query of four batches that goes on from a checkpoint."""
    answers: list[object] = []
    start = at(1)
    for _ in range(4):
        end = one.latest(start, 10)
        answers += [end, in_rows(one.partitions(start, end))]
        one.complete(start)
        start = end
    return answers


EXPECTED = drive(planner(FakeCluster(rows=(0, 100))))
"""Without a table."""


@pytest.mark.parametrize(
    ("when", "fault"),
    [*(("before_write", fault) for fault in FAULTS), ("before_read", "fails"), ("before_read", "hangs")],
)
def test_a_query_goes_on_as_without_a_table(
    storage: FakeStorage, caplog: pytest.LogCaptureFixture, fault: str, when: str
) -> None:
    one = open_planner(storage, SHORT if fault == "hangs" else SHORT._replace(call=30.0, end=30.0))
    one.initial()
    caplog.clear()
    setattr(storage, when, FAULTS[fault](storage))
    one.complete(at(1))
    if fault == "hangs":
        wait_for(lambda: storage.hanging, "the first commit")
    assert drive(one) == EXPECTED
    assert storage.hanging == (fault == "hangs")  # nobody has waited for its end
    one.close()
    warned, last = [record.getMessage() for record in caplog.records]
    why = {"fails": "disk full", "conflicts": "lost to another writer", "hangs": "no answer within 0.05 s"}[fault]
    assert re.search(
        f"its last position could not be written to the offsets table; the table is behind .*: .*{why}", last
    )
    if fault == "hangs":
        assert warned == "the offsets table has not answered for 0.05 s, so it is falling behind"
    else:
        assert re.match(f"the offsets table was not written, so it is behind; trying again: .*{why}", warned)
    assert storage.positions == {}


@pytest.mark.parametrize(
    ("when", "fault", "said"),
    [
        ("before_read", "fails", "disk full"),
        ("before_read", "hangs", r"the offsets table at /memory gave no answer within 0\.05 s\. Check that its storag"),
        ("before_write", "conflicts", "lost to another writer"),
        ("before_write", "hangs", r"the offsets table at /memory gave no answer within 0\.05 s"),
    ],
)
def test_trouble_at_the_start(storage: FakeStorage, when: str, fault: str, said: str) -> None:
    """The first answer has to be kept before anything is read."""
    setattr(storage, when, FAULTS[fault](storage))
    one = open_planner(storage, SHORT)
    with pytest.raises(OffsetsTableError, match=said):
        one.initial()
    one.close()
    assert storage.kept == []


def test_a_trouble_is_told_once_and_its_end_too(storage: FakeStorage, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "spark_source")
    one = open_planner(storage, Waits(retry=0.001))
    storage.before_write = broken
    one.complete(at(1))
    wait_for(lambda: storage.writes >= 4, "some tries")  # nobody calls the planner meanwhile
    storage.before_write = lambda: None
    wait_for(lambda: storage.positions == both(1), "the position")
    one.close()
    assert [record.getMessage() for record in caplog.records if "offsets table" in record.getMessage()] == [
        "the offsets table was not written, so it is behind; trying again: disk full",
        "the offsets table is written again",
    ]


@pytest.mark.parametrize(
    "call",
    [
        lambda one: one.latest(at(3), None),
        lambda one: one.partitions(at(2), at(3)),
        lambda one: one.complete(at(3)),
    ],
)
def test_a_newer_run_ends_the_query_at_its_next_call(storage: FakeStorage, call: Callable[[JsonPlanner], Any]) -> None:
    older, newer = open_planner(storage), open_planner(storage)
    older.complete(at(1))
    wait_for(lambda: storage.positions == both(1), "the older run's commit")
    newer.complete(at(4))
    newer.close()
    seen: list[bool] = []
    storage.before_read = lambda: seen.append(True)
    older.complete(at(2))
    wait_for(lambda: seen, "the older run's look")
    with pytest.raises(SupersededRun, match="was superseded by the run that started at"):
        wait_for(lambda: call(older), "its end")
    with pytest.raises(SupersededRun):
        older.complete(at(5))
    older.close()
    assert storage.positions == both(4)


def test_available_now_leaves_nothing_behind(storage: FakeStorage) -> None:
    one = open_planner(storage)
    storage.before_write = lambda: time.sleep(0.1)  # nothing hangs on its length
    one.freeze_end()
    start = at(1)
    while (end := one.latest(start, 60)) != start:
        start = end
    assert start == at(100)
    assert storage.commits == [both(1), both(61), both(100)]


def test_group_is_released_after_the_last_write(storage: FakeStorage) -> None:
    """Else the next run could begin before it."""
    cluster = FakeCluster(rows=(0, 100))
    one = open_planner(storage, cluster=cluster)
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


@settings(max_examples=examples(60), deadline=None)
@given(
    faults=st.lists(st.sampled_from(["none", "fails", "conflicts", "answer lost"]), max_size=30),
    batches=st.integers(1, 12),
)
def test_table_never_leads(faults: list[str], batches: int) -> None:
    """The table never leads or goes back, and catches up at the end, whatever fails."""
    storage, left, complete = FakeStorage(), list(faults), [0]
    led: list[dict[str, int]] = []

    def before() -> None:
        now = left[0] if left else "none"
        if now in ("fails", "conflicts"):
            left.pop(0)
            (broken if now == "fails" else lost_race)()

    def after() -> None:
        if max(storage.commits[-1].values()) > complete[-1]:
            led.append(storage.commits[-1])
        if left and left.pop(0) == "answer lost":
            broken()

    storage.before_write, storage.after_write = before, after
    one = open_planner(storage, Waits(retry=0.0))
    for rows in range(1, batches + 1):
        complete.append(rows)
        one.complete(at(rows))
    left.clear()
    one.close()
    assert led == []
    assert storage.positions == both(batches)
    assert storage.commits == sorted(storage.commits, key=lambda commit: commit["1:t:0"])
    assert len({row.sequence for row in storage.kept}) == 1


HANGING = """
import os, pathlib, sys
from offsets_store import GroupKey, OffsetsTable, PartitionProgress
from tubeclient.keys import PartitionKey
from spark_source.progress.latest_writer import Waits
from tests.spark_source.fakes import FakeCluster, as_json, planner_with

folder = pathlib.Path(sys.argv[1])
before = planner_with(None, Waits(), FakeCluster(), offsetsTable=folder)
before.complete(as_json({"1:t:0": 1, "1:t:1": 1}))
before.close()
one = planner_with(None, Waits(call=30, end=0.5), FakeCluster(), offsetsTable=folder)
one.partitions(as_json({"1:t:0": 1}), as_json({"1:t:0": 1}))  # the run has begun
# A commit looks at the rows only if somebody else has written.
other = OffsetsTable(str(folder)).open_run(GroupKey("other", ["t"]), 1)
other.record([PartitionProgress(PartitionKey(1, "t", 0), 28)])
for data in folder.rglob("*.parquet"):
    data.unlink()
    os.mkfifo(data)  # whoever opens it waits for a writer
one.complete(as_json({"1:t:0": 2, "1:t:1": 2}))
one.close()
print("closed")
"""


def test_hanging_disk(tmp_path: Path) -> None:
    """delta-rs waits in its own code, where Python has no say."""
    found = subprocess.run(
        [sys.executable, "-c", HANGING, str(tmp_path / "offsets")], capture_output=True, text=True, timeout=60
    )
    assert (found.returncode, found.stdout) == (0, "closed\n"), found.stderr
    assert "its last position could not be written to the offsets table" in found.stderr
