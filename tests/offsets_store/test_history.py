"""Who moved what when, from the log and the versions of the table."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable

from offsets_store import GroupKey, Move, OffsetsTable, OffsetsTableError
from offsets_store.delta_rs import DeltaRsStorage
from offsets_store.rows import Row
from tests.offsets_store.conftest import FIRST, KEY, SECOND, Clock, at
from tubeclient.names import GroupName

Open = Callable[[], OffsetsTable]
WIDER = GroupKey("clicks_etl", ["clicks", "views"])


def test_each_commit_says_what_moved_from_where_and_by_whom(open_table: Open, clock: Clock, uri: str) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    first = open_table().open_run(KEY, 2)
    first.record(at({FIRST: 28}))
    open_table().open_run(GroupKey("it's_another", ["clicks"]), 1).record(at({FIRST: 2800}))
    first.record(at({FIRST: 280, SECOND: 28}))
    clock.now += 60_000
    second = OffsetsTable(uri, clock_ms=clock, client_version="10").open_run(KEY, 2)
    second.record(at({FIRST: 28, SECOND: 28}))
    history = open_table().history("clicks_etl")
    assert history.cut is False
    assert [(c.version, c.sequence, c.run_epoch, c.client_version, c.moves) for c in history.commits] == [
        (4, 3, second.epoch, "10", (Move(FIRST, 280, 28),)),
        (3, 2, first.epoch, "9.9", (Move(FIRST, 28, 280), Move(SECOND, None, 28))),
        (1, 1, first.epoch, "9.9", (Move(FIRST, None, 28),)),
    ]
    assert [move.rows for commit in history.commits for move in commit.moves] == [-9, 9, None, None]
    assert {(c.operation, c.topic_set) for c in history.commits} == {("WRITE", "clicks")}
    assert before <= history.commits[-1].committed_at <= history.commits[0].committed_at <= datetime.now(UTC)
    assert [c.version for c in open_table().history("it's_another").commits] == [2]
    assert open_table().history("nobody").commits == ()


def test_the_limit_is_kept_and_says_nothing_of_what_is_gone(open_table: Open) -> None:
    run = open_table().open_run(KEY, 1)
    for step in range(1, 6):
        run.record(at({FIRST: 28 * step}))
    found = open_table().history("clicks_etl", limit=2)
    assert ([c.sequence for c in found.commits], found.cut) == ([5, 4], False)
    with pytest.raises(ValueError):
        open_table().history("clicks_etl", limit=0)


def test_a_group_is_found_beneath_many_commits_of_others_which_are_not_looked_at(
    open_table: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_table().open_run(KEY, 1).record(at({FIRST: 28}))
    other = open_table().open_run(GroupKey("other", ["clicks"]), 1)
    for step in range(1, 111):
        other.record(at({FIRST: 28 * step}))
    looked_at: list[int] = []
    original = DeltaRsStorage.rows_at

    def rows_at(storage: DeltaRsStorage, group: GroupName, version: int) -> list[Row] | None:
        looked_at.append(version)
        return original(storage, group, version)

    monkeypatch.setattr(DeltaRsStorage, "rows_at", rows_at)
    found = open_table().history("clicks_etl")
    assert looked_at == [1, 0]
    assert ([c.version for c in found.commits], found.cut) == ([1], False)


def test_a_new_querys_kept_beginning_and_work_by_hand_are_seen(open_table: Open, uri: str) -> None:
    run = open_table().open_run(KEY, 1)
    run.keep_initial("latest", {FIRST: 28})
    run.clear_initial()
    run.record(at({FIRST: 280, SECOND: 56}))
    DeltaTable(uri).delete('"partitionId" = 10000')
    deleted, recorded, kept = open_table().history("clicks_etl").commits
    assert (deleted.operation, deleted.sequence, deleted.run_epoch) == ("DELETE", None, None)
    assert deleted.moves == (Move(SECOND, 56, None),)
    assert recorded.moves == (Move(FIRST, None, 280), Move(SECOND, None, 56))
    assert (kept.moves, kept.sequence) == ((), 1)


def test_the_state_at_a_sequence(open_table: Open) -> None:
    run = open_table().open_run(KEY, 1)
    run.record(at({FIRST: 28}))
    run.record(at({FIRST: 56}))
    open_table().open_run(WIDER, 1, force=True).record(at({FIRST: 84}))
    open_table().open_run(GroupKey("other", ["clicks"]), 1).record(at({FIRST: 280}))
    table = open_table()
    kept, wider = ([table.at_sequence(key, number) for number in (1, 2, 3)] for key in (KEY, WIDER))
    assert [found and found.positions for found in kept] == [{FIRST: 28}, {FIRST: 56}, {FIRST: 56}]
    assert [found and found.positions for found in wider] == [None, None, {FIRST: 84}]
    with pytest.raises(OffsetsTableError, match="no commit 4 in the offsets table: its newest is 3"):
        table.at_sequence(KEY, 4)


def test_what_retention_took_is_said(open_table: Open, uri: str) -> None:
    run = open_table().open_run(KEY, 1)
    for step in range(1, 6):
        run.record(at({FIRST: 28 * step}))
    DeltaTable(uri).create_checkpoint()
    run.record(at({FIRST: 280}))
    # As the clean-up of the log does after delta.logRetentionDuration.
    for version in range(5):
        (Path(uri) / "_delta_log" / f"{version:020}.json").unlink()
    table = open_table()
    history = table.history("clicks_etl")
    assert history.cut is True
    assert [(c.sequence, c.moves, c.before_is_known) for c in history.commits] == [
        (6, (Move(FIRST, 140, 280),), True),
        (5, (Move(FIRST, None, 140),), False),
    ]
    with pytest.raises(OffsetsTableError, match="commit 3 of group 'clicks_etl' is not kept any more"):
        table.at_sequence(KEY, 3)
    found = table.at_sequence(KEY, 5)
    assert found is not None
    assert found.positions == {FIRST: 140}


def test_files_that_vacuum_took_are_said_and_end_the_history(open_table: Open, uri: str) -> None:
    run = open_table().open_run(KEY, 1)
    for step in range(1, 4):
        run.record(at({FIRST: 28 * step}))
    open_table().maintain(retention_hours=0)
    history = open_table().history("clicks_etl")
    assert ([c.sequence for c in history.commits], history.cut) == ([3], True)
    assert history.commits[0].before_is_known is False


def test_there_is_no_table_yet(open_table: Open, uri: str) -> None:
    assert open_table().history("clicks_etl") == open_table().history("other")
    assert open_table().history("clicks_etl").cut is False
    assert not os.path.exists(uri)
