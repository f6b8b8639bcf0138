"""What the planner does with an offsets table that fails, hangs or is slow, best effort and strict; in memory."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offsets_store import OffsetsTableError, SupersededRun
from spark_source.progress.follower import Waits
from spark_source.stream.planner import StreamPlanner
from tests.spark_source.fake_storage import FAULTS, SHORT, FakeStorage, at, both, broken, lost_race, open_planner
from tests.spark_source.fakes import FakeClock, FakeCluster, in_rows, planner
from tests.waiting import wait_for


def drive(one: StreamPlanner) -> list[object]:
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

# A store in trouble


@pytest.mark.parametrize(
    ("when", "fault"),
    [*(("before_write", fault) for fault in FAULTS), ("before_read", "fails"), ("before_read", "hangs")],
)
def test_best_effort_goes_on_as_without_a_table(
    storage: FakeStorage, caplog: pytest.LogCaptureFixture, fault: str, when: str
) -> None:
    waits = SHORT if fault == "hangs" else SHORT._replace(call=30.0, end=30.0)
    one = open_planner(storage, "best_effort", waits)
    one.initial()
    caplog.clear()
    setattr(storage, when, FAULTS[fault](storage))
    one.complete(at(1))
    if fault == "hangs":
        wait_for(lambda: storage.hanging, "the first commit")
    assert drive(one) == EXPECTED
    assert storage.hanging == (fault == "hangs")  # nobody has waited for its end
    one.close()
    assert storage.hanging == (fault == "hangs")
    *warned, last = [record.getMessage() for record in caplog.records]
    why = {"fails": "disk full", "conflicts": "lost against another writer", "hangs": "no answer within 0.05 s"}[fault]
    assert re.search(
        f"its last position could not be written to the offsets table; the table stays behind .*: .*{why}", last
    )
    if fault == "hangs":
        assert warned == []
    else:
        [only] = warned
        assert re.match(f"the offsets table was not written and stays behind; trying again: .*{why}", only)
    assert storage.positions == {}


@pytest.mark.parametrize("fault", FAULTS)
def test_strict_ends_before_the_next_batch_is_planned(storage: FakeStorage, fault: str) -> None:
    one = open_planner(storage, "strict", SHORT)
    first = one.latest(at(1), 10)
    assert storage.positions == both(1)
    storage.before_write = FAULTS[fault](storage)
    why = {
        "fails": "disk full",
        "conflicts": r".*lost against another writer of the group .*a consumerGroup of its own",
        "hangs": r"the offsets table at /memory gave no answer within 0\.05 s\. Check that its storage can be reached",
    }[fault]
    said = (
        f"the query ends because its offsets table could not be written and offsetsTableMode is strict: {why}.*Nothing "
        "is lost: repair the table and start the query again; it continues from its checkpoint"
    )
    with pytest.raises(OffsetsTableError, match=said):
        one.latest(first, 10)
    tries = storage.writes
    one.close()
    assert storage.writes == tries  # the query has said what is wrong
    assert storage.positions == both(1)
    # The next start does what this one would have done.
    storage.before_write = lambda: None
    again = open_planner(storage, "strict")
    assert drive(again) == EXPECTED
    assert storage.positions == both(31)


@pytest.mark.parametrize("mode", ["strict", "best_effort"])
@pytest.mark.parametrize(
    ("when", "fault", "said"),
    [
        ("before_read", "fails", "disk full"),
        (
            "before_read",
            "hangs",
            r"the offsets table at /memory gave no answer within 0\.05 s\. Check that its storage",
        ),
        ("before_write", "fails", "disk full"),
        ("before_write", "conflicts", "lost against another writer"),
        ("before_write", "hangs", r"the offsets table at /memory gave no answer within 0\.05 s"),
    ],
)
def test_a_table_that_is_in_trouble_at_the_start_is_an_error_in_time(
    storage: FakeStorage, mode: str, when: str, fault: str, said: str
) -> None:
    """The first answer has to be kept before anything is read, in either mode."""
    setattr(storage, when, FAULTS[fault](storage))
    one = open_planner(storage, mode, SHORT)
    with pytest.raises(OffsetsTableError, match=said):
        one.initial()
    one.close()
    assert storage.kept == []


# Best effort


def test_a_trouble_is_told_once_and_its_end_too(storage: FakeStorage, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "spark_source")
    one = open_planner(storage, "best_effort", Waits(retry=0.001))
    storage.before_write = broken
    one.complete(at(1))
    wait_for(lambda: storage.writes >= 4, "some tries")  # nobody calls the planner meanwhile
    storage.before_write = lambda: None
    wait_for(lambda: storage.positions == both(1), "the position")
    storage.before_write, tries = broken, storage.writes
    one.complete(at(2))
    wait_for(lambda: storage.writes >= tries + 4, "some tries of another trouble")
    storage.before_write = lambda: None
    one.close()
    told = [record.getMessage() for record in caplog.records if "offsets table" in record.getMessage()]
    assert (
        told
        == [
            "the offsets table was not written and stays behind; trying again: disk full",
            "the offsets table is written again",
        ]
        * 2
    )


def test_a_store_that_does_not_answer_is_told_of(storage: FakeStorage, caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    one = open_planner(storage, "best_effort", SHORT, clock)
    storage.before_write = storage.hang
    one.complete(at(1))
    wait_for(lambda: storage.hanging, "the commit")
    clock.now += 29
    one.complete(at(2))
    assert not caplog.records
    for _ in range(5):
        clock.now += 2
        one.complete(at(2))
    assert [record.getMessage() for record in caplog.records] == [
        "the offsets table has not answered for 30 s and stays behind"
    ]


@pytest.mark.parametrize(
    "call",
    [
        lambda one: one.latest(at(3), None),
        lambda one: one.partitions(at(2), at(3)),
        lambda one: one.complete(at(3)),
    ],
)
def test_a_newer_run_ends_the_query_at_its_next_call(
    storage: FakeStorage, call: Callable[[StreamPlanner], Any]
) -> None:
    older, newer = open_planner(storage, "best_effort"), open_planner(storage, "strict")
    older.complete(at(1))
    wait_for(lambda: storage.positions == both(1), "the older run's commit")
    newer.complete(at(4))
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


# Whatever happens


@settings(max_examples=60, deadline=None)
@given(
    faults=st.lists(st.sampled_from(["none", "fails", "conflicts", "answer lost"]), max_size=30),
    mode=st.sampled_from(["strict", "best_effort"]),
    batches=st.integers(1, 12),
)
def test_the_table_never_leads_never_goes_back_and_is_level_in_the_end(
    faults: list[str], mode: str, batches: int
) -> None:
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
    one = open_planner(storage, mode, Waits(retry=0.0))
    for rows in range(1, batches + 1):
        complete.append(rows)
        while True:
            try:
                one.complete(at(rows))
            except OffsetsTableError:  # strict: the query ends, and is started again
                one = open_planner(storage, mode, Waits(retry=0.0))
            else:
                break
    left.clear()
    one.close()
    assert led == []
    assert storage.positions == both(batches)
    assert storage.commits == sorted(storage.commits, key=lambda commit: commit["1:t:0"])
    assert len({row.sequence for row in storage.kept}) == 1
