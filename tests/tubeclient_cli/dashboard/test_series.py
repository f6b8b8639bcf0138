"""Lag and rate over time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tubeclient_cli.dashboard.world import NOW_MS, commit
from tubeclient_cli.dashboard.series import RATE_WINDOW_MS, rows_per_second, series_json


def test_a_rate_is_the_mean_up_to_now() -> None:
    commits = [commit(NOW_MS - 10_000, 600), commit(NOW_MS - 30_000, 0), commit(NOW_MS - 60_000, 10_000)]
    assert rows_per_second(commits, NOW_MS) == pytest.approx(10.0)


def test_what_was_read_before_the_window_does_not_count() -> None:
    since = NOW_MS - RATE_WINDOW_MS
    commits = [commit(since + 10_000, 2_000), commit(since - 10_000, 5_000), commit(since - 20_000, 5_000)]
    assert rows_per_second(commits, NOW_MS) == pytest.approx(1_000 * 1000 / RATE_WINDOW_MS)


def test_a_group_that_is_quiet_for_hours_reads_nothing() -> None:
    commits = [commit(NOW_MS - 7_200_000, 2_000), commit(NOW_MS - 7_300_000, 5_000)]
    assert rows_per_second(commits, NOW_MS) == 0


def test_one_commit_gives_no_rate() -> None:
    assert rows_per_second([commit(NOW_MS, 5)], NOW_MS) is None


def test_a_series_ascends_and_ends_now() -> None:
    found = series_json([commit(NOW_MS - 1_000, 50, 7), commit(NOW_MS - 6_000, 99, None)], NOW_MS, 12)
    assert found == {
        "at": [NOW_MS - 6_000, NOW_MS - 1_000, NOW_MS],
        "rowsBehind": [None, 7, 12],
        "rowsPerSecond": [None, 10.0, None],
    }


@given(st.lists(st.integers(0, 10_000), max_size=3_000))
def test_many_commits_are_few_points_and_no_row_or_peak_is_lost(rows: list[int]) -> None:
    commits = [commit(NOW_MS - 1_000 * n, read, read) for n, read in enumerate(rows)]
    found = series_json(commits, NOW_MS, None)
    assert len(found["at"]) <= 400
    assert found["at"] == sorted(set(found["at"]))
    assert max(found["rowsBehind"], default=0) == max(rows, default=0)
    drawn = sum(
        rate * (at - before) / 1000
        for rate, at, before in zip(found["rowsPerSecond"][1:], found["at"][1:], found["at"], strict=False)
    )
    first = len(rows) - sum(1 for n in range(len(rows)) if found["at"] and NOW_MS - 1_000 * n > found["at"][0])
    assert drawn == pytest.approx(sum(rows[: len(rows) - first]), abs=0.5 * len(rows) + 1)
