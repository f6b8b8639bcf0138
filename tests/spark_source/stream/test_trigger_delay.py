"""minOffsetsPerTrigger and maxTriggerDelay in the planner: who waits, how long, and what waiting does not disturb."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from spark_source.offsets.offsets import Offsets
from spark_source.stream.stream_reader import TubeStreamReader
from tests.spark_source.fakes import STORE, FakeClock, FakeCluster, as_json, options, planner
from tubeclient.errors import ConfigurationError


def at(rows: int) -> dict[str, Any]:
    """Both partitions of the one store at one row."""
    return as_json({"1:t:0": rows, "1:t:1": rows})


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


def test_triggers_that_do_not_wait() -> None:
    """AvailableNow and triggers without a limit do not wait for the minimum."""
    for freeze in (False, True):
        clock, cluster = FakeClock(), FakeCluster(rows=(0, 12))
        one = planner(cluster, clock, startingOffsets="earliest")
        if freeze:
            one.freeze_end()
        end = one.latest(one.initial(), 10, 10)
        assert end == at(10)
        assert one.latest(end, *((10, 10) if freeze else (None, None))) == at(12)


def test_what_spark_is_told_and_what_it_asks_with() -> None:
    asked: list[tuple[int | None, int | None]] = []

    class Planner:
        def latest(self, start: Offsets, max_rows: int | None, min_rows: int | None) -> Offsets:
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
        reader.latestOffset(at(0), limit)
        reader.latestOffset(at(0), ReadAllAvailable())  # Trigger.Once
    everything = (None, None)
    assert asked == [everything, everything, (9, None), everything, (None, 4), everything, (9, 4), everything]


def test_a_minimum_above_the_maximum_is_refused() -> None:
    options(minOffsetsPerTrigger=5, maxOffsetsPerTrigger=5).check_stream()
    with pytest.raises(ConfigurationError, match=r"minOffsetsPerTrigger 6 is more than maxOffsetsPerTrigger 5"):
        options(minOffsetsPerTrigger=6, maxOffsetsPerTrigger=5).check_stream()
