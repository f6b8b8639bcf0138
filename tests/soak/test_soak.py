"""The figures and the verdict of a soak."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tests.exactly_once.processes import Found
from tests.soak.processes import ROLES, Use, role_of, use_by_role
from tests.soak.run import Report
from tests.soak.slope import slope_of
from tests.soak.verdict import Counts, compare

HOUR = np.arange(0, 3600, 5.0)


@pytest.mark.parametrize(("per_hour", "grows"), [(0.0, False), (30.0, True), (-30.0, False)])
def test_a_slope_is_told_from_noise(per_hour: float, grows: bool) -> None:
    noise = np.random.default_rng(7).normal(0, 5, len(HOUR))
    found = slope_of(HOUR, 100 + per_hour * HOUR / 3600 + noise)
    assert found.per_hour == pytest.approx(per_hour, abs=4 * found.error)
    assert 0.1 < found.error < 2
    assert found.grows == grows


def test_a_heap_that_is_collected_does_not_grow() -> None:
    saw = 200 + (HOUR % 400) / 4
    assert not slope_of(HOUR, saw).grows


def test_a_slope_needs_samples() -> None:
    with pytest.raises(ValueError, match="needs 24 samples"):
        slope_of(HOUR[:23], HOUR[:23])


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([2, 0, 1], Counts(0, 0, 0)),
        ([0, 1], Counts(1, 0, 0)),
        ([0, 1, 1, 2, 2, 2], Counts(0, 3, 0)),
        ([0, 1, 2, 3, -1], Counts(0, 0, 2)),
        ([1, 1], Counts(2, 1, 0)),
    ],
)
def test_each_number_has_to_come_once(numbers: list[int], expected: Counts) -> None:
    assert compare(np.array(numbers, dtype=np.int64), 3) == expected


def test_processes_are_summed_by_role() -> None:
    planner, worker = ROLES["planner"], ROLES["Python workers"]
    ours = [Found(os.getpid(), 1, 0, f"python -m {name}") for name in (planner, worker, worker, "sshd")]
    gone = Found(2**22 + 1, 1, 0, f"python -m {planner}")
    one, two = (use_by_role([*ours, gone])[role] for role in ("planner", "Python workers"))
    assert one.processes == 1
    assert two.processes == 2
    assert one.memory_mb > 5
    assert one.descriptors > 2
    assert two == pytest.approx(Use(2 * one.memory_mb, 2 * one.descriptors, 2 * one.threads, 2), rel=0.1)
    assert role_of("sshd") is None


def test_a_run_is_whole_if_all_came_and_all_was_taken() -> None:
    report = Report(counts=Counts(0, 0, 0))
    assert report.whole
    report.failed.append("refused")
    assert not report.whole
    assert not Report(counts=Counts(1, 0, 0)).whole
    assert not Report().whole
