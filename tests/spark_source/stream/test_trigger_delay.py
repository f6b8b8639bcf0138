"""minOffsetsPerTrigger and maxTriggerDelay in the planner: who waits, how long, and what waiting does not disturb."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from offsets_store import GroupKey, OffsetsTable
from spark_source.stream.stream_reader import TubeStreamReader
from spark_source.stream.trigger_delay import TriggerDelay
from tests.spark_source.fakes import ROW, STORE, FakeClock, FakeCluster, as_json, key, options, planner
from tubeclient.errors import ConfigurationError, DataLoss
from tubeclient.keys import StoreKey, TopicLayout


def at(rows: int) -> dict[str, Any]:
    """Both partitions of the one store at one row."""
    return as_json({"1:t:0": rows, "1:t:1": rows})


def test_the_first_is_let_go_and_then_the_time_counts_from_the_last() -> None:
    clock = FakeClock()
    delay = TriggerDelay(10_000, clock)
    assert not delay.holds_back(0, 5)
    clock.now += 9
    assert delay.holds_back(4, 5)
    assert not delay.holds_back(5, 5)  # enough, and the time begins anew
    clock.now += 9
    assert delay.holds_back(4, 5)
    clock.now += 1
    assert not delay.holds_back(0, 5)


def test_too_few_rows_wait_for_more() -> None:
    clock, cluster = FakeClock(), FakeCluster(rows=(0, 10))
    one = planner(cluster, clock, startingOffsets="earliest")
    assert one.latest(one.initial(), None, 5) == at(10)  # the first batch of a run waits for nothing
    start = at(10)
    for rows in (10, 11, 14):
        cluster.rows[STORE] = (0, rows)
        clock.now += 1
        assert one.latest(start, None, 5) is start
    cluster.rows[STORE] = (0, 15)
    clock.now += 1
    assert one.latest(start, None, 5) == at(15)


def test_they_wait_no_longer_than_the_delay() -> None:
    clock, cluster = FakeClock(), FakeCluster(rows=(0, 10))
    one = planner(cluster, clock, startingOffsets="earliest", maxTriggerDelay="60s")
    one.latest(one.initial(), None, 1_000)
    start, let_go = at(10), clock.now
    cluster.rows[STORE] = (0, 13)
    while (end := one.latest(start, None, 1_000)) is start:
        clock.now += 0.25
        assert clock.now <= let_go + 60
    assert end == at(13)
    assert clock.now == let_go + 60


def test_a_wait_asks_the_brokers_as_little_as_an_idle_query(monkeypatch: pytest.MonkeyPatch) -> None:
    """And ends in time where the last look is still the newest: asking for offsets may take long."""
    clock, cluster = FakeClock(), FakeCluster(rows=(0, 10))
    cluster.clock = clock
    one = planner(cluster, clock, startingOffsets="earliest", maxTriggerDelay="10s")
    one.latest(one.initial(), None, 5)
    start, let_go = at(10), clock.now
    cluster.rows[STORE] = (0, 13)
    cluster.lookup_takes = 2.0
    clock.now += 1
    asked, planned = cluster.count("bounds"), 0

    def count_and_find_nothing(*given: object) -> object:
        nonlocal planned
        planned += 1
        return given[0]

    with monkeypatch.context() as patched:
        patched.setattr("spark_source.stream.planner.plan", count_and_find_nothing)
        while clock.now < let_go + 9.9:
            assert one.latest(start, None, 5) is start
            clock.now += 0.05
    assert cluster.count("bounds") == asked + 1
    assert planned == 1
    clock.now = let_go + 10
    assert one.latest(start, None, 5) == at(13)
    assert cluster.count("bounds") == asked + 1


def test_at_most_and_at_least_together() -> None:
    clock, cluster = FakeClock(), FakeCluster(stores=2, partitions=1, rows=(0, 50))
    one = planner(cluster, clock, startingOffsets="earliest")
    end = one.latest(one.initial(), 30, 20)
    assert end == as_json({"1:t:0": 15, "1:t:10000": 15})
    end = one.latest(end, 30, 20)
    end = one.latest(end, 30, 20)
    assert end == as_json({"1:t:0": 45, "1:t:10000": 45})
    assert one.latest(end, 30, 20) is end  # the last 10 wait
    cluster.rows[StoreKey(1, "t", 1)] = (0, 60)
    clock.now += 1
    assert one.latest(end, 30, 20) == as_json({"1:t:0": 50, "1:t:10000": 60})


def test_triggers_that_want_everything_and_available_now_do_not_wait() -> None:
    for freeze in (False, True):
        clock, cluster = FakeClock(), FakeCluster(rows=(0, 12))
        one = planner(cluster, clock, startingOffsets="earliest")
        if freeze:
            one.freeze_target()
        end = one.latest(one.initial(), 10, 10)
        assert end == at(10)
        assert one.latest(end, *((10, 10) if freeze else (None, None))) == at(12)


def test_a_partition_that_appears_enters_at_once_and_its_rows_count() -> None:
    clock, cluster = FakeClock(), FakeCluster(partitions=1, rows=(0, 10))
    one = planner(cluster, clock, startingOffsets="earliest")
    end = one.latest(one.initial(), None, 8)
    cluster.rows[STORE] = (0, 13)
    cluster.layouts = [TopicLayout("t", 1, 2, 1)]
    cluster.rows[StoreKey(1, "t", 1)] = (2, 7)
    clock.now += 1
    entered = one.latest(end, None, 8)
    assert entered == as_json({"1:t:0": 10, "1:t:10000": 2})
    assert one.partitions(end, entered) == []
    assert one.latest(entered, None, 8) == as_json({"1:t:0": 13, "1:t:10000": 7})  # 3 and 5


def test_a_loss_is_found_while_waiting() -> None:
    clock, cluster = FakeClock(), FakeCluster(rows=(0, 10))
    one = planner(cluster, clock, startingOffsets="earliest")
    one.latest(one.initial(), None, 5)
    cluster.rows[STORE] = (12, 14)
    clock.now += 1
    with pytest.raises(DataLoss, match="at most 2 messages have expired"):
        one.latest(at(10), None, 5)


def test_the_offsets_table_is_told_though_the_next_batch_waits(tmp_path: Path) -> None:
    clock, cluster = FakeClock(), FakeCluster(rows=(0, 10))
    one = planner(cluster, clock, startingOffsets="earliest", offsetsTable=tmp_path)
    end = one.latest(one.initial(), None, 5)
    cluster.rows[STORE] = (0, 12)
    clock.now += 1
    assert one.latest(end, None, 5) is end
    kept = OffsetsTable(str(tmp_path)).latest(GroupKey("g", ["t"]))
    assert kept is not None
    assert {row.partition: row.next_offset for row in kept.partitions} == {
        key("1:t:0"): 10 * ROW,
        key("1:t:1"): 10 * ROW,
    }


def test_what_spark_is_told_and_what_it_asks_with() -> None:
    asked: list[tuple[int | None, int | None]] = []

    class Planner:
        def latest(self, start: dict[str, object], max_rows: int | None, min_rows: int | None) -> dict[str, object]:
            asked.append((max_rows, min_rows))
            return start

    for given, limit in (
        ({}, ReadAllAvailable()),
        ({"maxOffsetsPerTrigger": 9}, ReadMaxRows(9)),
        ({"minOffsetsPerTrigger": 4}, ReadMinRows(4)),
        ({"maxOffsetsPerTrigger": 9, "minOffsetsPerTrigger": 4}, ReadMaxRows(9)),
    ):
        reader = TubeStreamReader(options(**given))
        assert reader.getDefaultReadLimit() == limit
        reader._planner = Planner()  # type: ignore[assignment]
        reader.latestOffset({}, limit)
        reader.latestOffset({}, ReadAllAvailable())  # Trigger.Once
    everything = (None, None)
    assert asked == [everything, everything, (9, None), everything, (None, 4), everything, (9, 4), everything]


def test_a_minimum_above_the_maximum_is_refused() -> None:
    options(minOffsetsPerTrigger=5, maxOffsetsPerTrigger=5).check_stream()
    with pytest.raises(ConfigurationError, match=r"minOffsetsPerTrigger 6 is more than maxOffsetsPerTrigger 5"):
        options(minOffsetsPerTrigger=6, maxOffsetsPerTrigger=5).check_stream()
