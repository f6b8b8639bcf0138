"""The planner and the offsets table, a real one: it follows, never leads, and keeps where a query began."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsets_store import GroupKey, OffsetsTable
from tests.spark_source.fakes import ROW, STORE, FakeClock, FakeCluster, as_json, key, planner
from tubeclient.keys import StoreKey, TopicLayout


def table(folder: Path) -> OffsetsTable:
    return OffsetsTable(str(folder))


def positions(folder: Path) -> dict[str, int]:
    return {str(name): at // ROW for name, at in table(folder).positions("g", ["t"]).items()}


def test_start_survives_a_crash(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The first start survives a crash of the first batch unless the options change."""
    cluster = FakeCluster(rows=(0, 10))
    first = planner(cluster, offsetsTable=tmp_path).initial()
    cluster.rows[STORE] = (0, 16)
    assert not caplog.records
    restarted = planner(cluster, offsetsTable=tmp_path)
    assert restarted.initial() == first == as_json({"1:t:0": 10, "1:t:1": 10})
    assert "the query starts where it started last time, because the offsets table has those offsets" in caplog.text
    # Other starting options, and other partitions, are another question.
    for other, begin in (
        ({"startingOffsets": "earliest"}, {"1:t:0": 0, "1:t:1": 0}),
        ({"subscribe": None, "assign": '["1:t:0"]'}, {"1:t:0": 16}),
        ({"subscribe": None, "assign": '["1:t:0", "1:t:1"]'}, {"1:t:0": 16, "1:t:1": 16}),
    ):
        assert planner(cluster, offsetsTable=tmp_path, **other).initial() == as_json(begin)


def test_warning_without_a_table(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The planner warns about a start that moves if there is no offsets table."""
    planner(FakeCluster(), startingOffsets="earliest").initial()
    planner(FakeCluster(), startingOffsets="latest", offsetsTable=tmp_path).initial()
    assert not caplog.records
    planner(FakeCluster(), startingOffsets="latest").initial()
    assert "starts later the next time. Set offsetsTable" in caplog.text


def test_table_has_positions_and_lag(tmp_path: Path) -> None:
    """The table stores the completed positions and how far they are behind."""
    cluster = FakeCluster(rows=(0, 10))
    one, start, end = (
        planner(cluster, offsetsTable=tmp_path),
        as_json({"1:t:0": 1, "1:t:1": 1}),
        as_json({"1:t:0": 4, "1:t:1": 4}),
    )
    one.partitions(start, end)
    one.latest(end, None)
    stored = table(tmp_path).latest(GroupKey("g", ["t"]))
    assert stored is not None
    assert [(str(row.partition), row.next_offset, row.end_offset, row.node_id) for row in stored.partitions] == [
        ("1:t:0", 4 * ROW, 10 * ROW, 0),
        ("1:t:1", 4 * ROW, 10 * ROW, 1),
    ]
    assert (stored.source_count, stored.rows_behind) == (2, 6)


def test_group_takes_each_topic_from_one_place(tmp_path: Path) -> None:
    """Where the table knows a topic, a partition that it does not know is new, whatever brokers say of it."""
    cluster = FakeCluster(rows=(1, 10))
    planner(cluster, offsetsTable=tmp_path).complete(as_json({"1:t:0": 4}))
    cluster.layouts.append(TopicLayout("u", 1, 1, 1))
    cluster.rows[StoreKey(1, "u", 0)] = (0, 9)
    cluster.positions = {key("1:t:1"): 9 * ROW, key("1:u:0"): 7 * ROW}
    one = planner(cluster, offsetsTable=tmp_path, startingOffsets="group", subscribe="t,u")
    assert one.initial() == as_json({"1:t:0": 4, "1:t:1": 1, "1:u:0": 7})


def test_table_goes_back_before_a_batch(tmp_path: Path) -> None:
    """The table goes back before a batch does if a lost tail is accepted."""
    clock, cluster = FakeClock(), FakeCluster(partitions=1, rows=(0, 1000))
    more = {"offsetsTable": tmp_path, "failOnDataLoss": "false"}
    one = planner(cluster, clock, **more)
    assert one.initial() == as_json({"1:t:0": 1000})
    cluster.rows[STORE] = (0, 1010)
    one.complete(as_json({"1:t:0": 1010}))
    cluster.rows[STORE] = (0, 8)
    clock.now += 60
    assert one.latest(as_json({"1:t:0": 1010}), None) == as_json({"1:t:0": 8})
    assert positions(tmp_path) == {"1:t:0": 8}
    one.complete(as_json({"1:t:0": 1010}))  # Spark says so once the batch that goes back is planned
    one.latest(as_json({"1:t:0": 8}), None)
    one.complete(as_json({"1:t:0": 1010}))  # or later still, with asynchronous progress tracking
    one.close()
    assert positions(tmp_path) == {"1:t:0": 8}
    # Started again before that batch: from a checkpoint that is ahead still.
    again = planner(cluster, clock, **more)
    assert again.latest(as_json({"1:t:0": 1010}), None) == as_json({"1:t:0": 8})
    assert positions(tmp_path) == {"1:t:0": 8}
    again.close()


def test_start_before_positions_past_the_data(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A topic was created again, and there is nothing to read yet: no batch will say where the group is."""
    cluster = FakeCluster(rows=(0, 10))
    one = planner(cluster, offsetsTable=tmp_path)
    one.latest(as_json({"1:t:0": 10, "1:t:1": 3}), None)
    one.close()
    assert positions(tmp_path) == {"1:t:0": 10, "1:t:1": 3}
    cluster.rows[STORE] = (0, 4)
    anew = planner(cluster, offsetsTable=tmp_path, startingOffsets="latest")
    assert anew.initial() == as_json({"1:t:0": 4, "1:t:1": 4})
    anew.close()
    assert positions(tmp_path) == {"1:t:0": 4, "1:t:1": 3}
    assert "the offsets table was past the end of the brokers' data in 1 partitions, such as 1:t:0" in caplog.text


def test_late_confirmation_of_an_older_end(tmp_path: Path) -> None:
    """As with asynchronous progress tracking: Spark confirms a batch once a later one is in its log."""
    one = planner(FakeCluster(partitions=1), offsetsTable=tmp_path)
    for at, confirmed in ((4, None), (7, None), (10, 4), (10, 7)):
        one.latest(as_json({"1:t:0": at}), 3)
        if confirmed is not None:
            one.complete(as_json({"1:t:0": confirmed}))
        assert positions(tmp_path) == {"1:t:0": at}
    one.close()


def test_first_batch_without_rows(tmp_path: Path) -> None:
    """A first batch without rows is complete once Spark asks for the next one."""
    one, group = planner(FakeCluster(partitions=1), offsetsTable=tmp_path), GroupKey("g", ["t"])
    start = one.initial()
    for _ in range(2):  # Spark asks again after a restart, too
        assert one.latest(start, None) == start
        assert (positions(tmp_path), table(tmp_path).keeps_start(group)) == ({}, True)
    assert one.partitions(start, start) == []
    assert one.latest(start, None) == start
    assert (positions(tmp_path), table(tmp_path).keeps_start(group)) == ({"1:t:0": 10}, False)
