"""Many groups commit to one table at once: nobody is told to stop for what other groups write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from deltalake import CommitProperties

from offsets_store import CommitConflict, GroupKey, OffsetsRun, OffsetsTable, delta_rs
from offsets_store.rows import rows_to_arrow
from tests.offsets_store.conftest import FIRST, KEY, at

LOSSES = 10


@pytest.fixture
def run(open_table: Callable[[], OffsetsTable]) -> OffsetsRun:
    """A run that has written."""
    run = open_table().open_run(KEY, 1)
    run.record(at({FIRST: 28}))
    return run


@pytest.fixture
def losses(open_table: Callable[[], OffsetsTable], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of the commits of `run`, the first ten tries lose: before each, another group commits. delta-rs is to give up at
    once, as it does after fifteen losses in a row."""
    other = open_table().open_run(GroupKey("another", ["clicks"]), 1)
    lost: list[int] = []
    original, properties = rows_to_arrow, delta_rs._properties

    def overtaken(rows: Any) -> Any:
        if rows[0].consumer_group == KEY.consumer_group and len(lost) < LOSSES:
            lost.append(len(lost))
            other.record(at({FIRST: 28 * len(lost)}))
        return original(rows)

    def impatient(key: GroupKey, sequence: int) -> CommitProperties:
        found = properties(key, sequence)
        found.max_commit_retries = 0
        return found

    monkeypatch.setattr(delta_rs, "rows_to_arrow", overtaken)
    monkeypatch.setattr(delta_rs, "_properties", impatient)
    return lost


def test_a_commit_that_loses_against_other_groups_goes_on(
    run: OffsetsRun, losses: list[int], open_table: Callable[[], OffsetsTable]
) -> None:
    assert run.record(at({FIRST: 56})) is True
    assert len(losses) == LOSSES
    assert open_table().positions("clicks_etl", ["clicks"]) == {FIRST: 56}
    assert open_table().positions("another", ["clicks"]) == {FIRST: 28 * LOSSES}


def test_in_the_end_it_says_that_other_groups_were_faster(
    run: OffsetsRun, losses: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_rs, "_PATIENCE_S", 0.0)
    with pytest.raises(CommitConflict, match=r"writers of other groups were faster .* give some of its groups a table"):
        run.record(at({FIRST: 56}))
    assert losses == [0]
