"""The history of groups, read from a real table a few commits at a time."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from deltalake import DeltaTable

from offsets_store import GroupKey, GroupProgress, OffsetsTable
from tests.tubeclient_cli.dashboard.world import key, read
from tubeclient_cli.dashboard.looks import Incomplete
from tubeclient_cli.dashboard.partitions import partition_states
from tubeclient_cli.dashboard.table_look import TableLook

CLICKS = GroupKey("clicks_etl", ["clicks"])


@pytest.fixture
def table(tmp_path: Path) -> OffsetsTable:
    return OffsetsTable(str(tmp_path / "offsets"))


def write(table: OffsetsTable, *rows: int, group: GroupKey = CLICKS) -> None:
    run = table.open_run(group, 1, force=True)
    for number in rows:
        run.record([read(key(0, topic=group.topics[0]), number, 100)])


def test_a_table_that_is_not_there_is_said(table: OffsetsTable) -> None:
    with pytest.raises(Incomplete, match="there is no Delta table; check --offsets-table") as caught:
        TableLook(table)()
    assert caught.value.answer == ()
    assert (table.groups(), table.commits(5)) == ([], [])


def test_a_group_that_has_completed_no_batch_is_there_with_its_beginning(table: OffsetsTable) -> None:
    table.open_run(CLICKS, 3).keep_initial("latest", {key(0): 280}, {key(1): "latest"})
    [group] = TableLook(table)()
    assert (group.progress.group, group.progress.source_count, group.commits) == (CLICKS, 3, ())
    assert group.past == table.past("clicks_etl")
    shown, waits = partition_states(group, None)
    assert (shown.partition, shown.next_offset, shown.reason) == (
        key(0),
        280,
        "it begins here; no batch is complete yet",
    )
    assert (waits.partition, waits.next_offset, waits.rows_behind) == (key(1), None, None)
    table.open_run(CLICKS, 3, force=True).record([read(key(0), 11, 12)])
    [group] = TableLook(table)()
    assert [row.next_offset for row in group.progress.partitions] == [308]


def test_a_run_of_new_topics_is_there_before_its_first_batch(table: OffsetsTable) -> None:
    write(table, 10)
    views = GroupKey("clicks_etl", ["views"])
    table.open_run(views, 1, force=True).keep_initial("latest", {key(0, topic="views"): 28})
    assert [group.progress.group for group in TableLook(table)()] == [CLICKS, views]


def test_each_group_has_its_own_commits_newest_first(table: OffsetsTable) -> None:
    write(table, 10, 15)
    write(table, 1, group=GroupKey("other", ["views"]))
    write(table, 40)
    clicks, other = TableLook(table, history_s=60)()
    assert table.groups() == ["clicks_etl", "other"]
    assert [(commit.rows_read, commit.rows_behind, commit.new_run) for commit in clicks.commits] == [
        (25, 60, True),
        (5, 85, False),
        (0, 90, False),
    ]
    assert [commit.rows_read for commit in other.commits] == [0]
    assert not clicks.reads_on


def test_commits_of_other_topics_of_the_group_are_left_out(table: OffsetsTable) -> None:
    write(table, 10, 20)
    write(table, 5, group=GroupKey("clicks_etl", ["views"]))
    clicks, views = TableLook(table, history_s=60)()
    assert [commit.rows_read for commit in clicks.commits] == [10, 0]
    assert [commit.rows_read for commit in views.commits] == [0]


def test_only_the_wanted_groups_are_read(table: OffsetsTable) -> None:
    write(table, 10)
    write(table, 1, group=GroupKey("other", ["views"]))
    assert [facts.progress.group for facts in TableLook(table, ["other", "unknown"])()] == [
        GroupKey("other", ["views"])
    ]


@pytest.fixture
def read_versions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The versions of tables that are read from now on."""
    found: list[int] = []
    at_version = OffsetsTable.at_version

    def noted(self: OffsetsTable, key: GroupKey, version: int) -> GroupProgress | None:
        found.append(version)
        return at_version(self, key, version)

    monkeypatch.setattr(OffsetsTable, "at_version", noted)
    return found


def test_commits_of_other_groups_are_not_read(table: OffsetsTable, read_versions: list[int]) -> None:
    write(table, 1)
    write(table, 1, 2, 3, group=GroupKey("other", ["views"]))
    write(table, 5)
    [facts] = TableLook(table, ["clicks_etl"], history_s=60)()
    assert [commit.rows_read for commit in facts.commits] == [4, 0]
    assert sorted(read_versions) == [0, 1, 5]


def test_old_commits_are_read_bit_by_bit_and_none_twice(table: OffsetsTable, read_versions: list[int]) -> None:
    write(table, 1, 2, 3, 4)
    seconds = iter(range(1_000))
    look = TableLook(table, history_s=1, clock_s=lambda: next(seconds))
    lengths = []
    for _ in range(5):
        [facts] = look()
        lengths.append((len(facts.commits), facts.reads_on))
    assert lengths == [(1, True), (2, True), (3, True), (4, False), (4, False)]
    assert len(read_versions) <= 8
    write(table, 9)
    [facts] = look()
    assert [commit.rows_read for commit in facts.commits] == [5, 1, 1, 1, 0]


def test_no_more_commits_than_asked_for(table: OffsetsTable) -> None:
    write(table, 1, 2, 3, 4)
    [facts] = TableLook(table, most_commits=2, history_s=60)()
    assert [commit.rows_read for commit in facts.commits] == [1, 1]


@pytest.mark.parametrize("name", ["1 bad\nname", " clicks_etl"])
def test_a_group_whose_name_is_none_leaves_the_others(
    table: OffsetsTable, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(table, 10)
    with monkeypatch.context() as lenient:
        for module in ("progress", "table"):
            lenient.setattr(f"offsets_store.{module}.group_name", str)
        write(table, 1, group=GroupKey(name, ["views"]))
    assert table.groups() == [name, "clicks_etl"]
    with pytest.raises(
        Incomplete, match=f"^group {re.escape(repr(name))} is left out: {re.escape(repr(name))} is not"
    ) as caught:
        TableLook(table)()
    assert [facts.progress.group for facts in caught.value.answer] == [CLICKS]


def test_a_group_of_a_newer_release_leaves_the_others(table: OffsetsTable, tmp_path: Path) -> None:
    write(table, 10)
    write(table, 1, group=GroupKey("newer", ["views"]))
    DeltaTable(str(tmp_path / "offsets")).update({"rowVersion": "2"}, predicate="\"consumerGroup\" = 'newer'")
    with pytest.raises(Incomplete, match=r"^group 'newer' is left out: the offsets table's rows .* upgrade$") as caught:
        TableLook(table)()
    assert [facts.progress.group for facts in caught.value.answer] == [CLICKS]
