"""What Spark before 4.2 leaves out, which the reader remembers: where the last batch ended."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyspark.sql.datasource import InputPartition

from spark_source.plan.read_task import ReadTask
from spark_source.stream.stream_reader import TubeStreamReader
from tests.spark_source.as_spark import JsonPlanner
from tests.spark_source.fakes import STORE, FakeClock, FakeCluster, as_json, in_rows, options, planner
from tubeclient.errors import DataLoss
from tubeclient.keys import TopicLayout


def reader(planned: JsonPlanner) -> TubeStreamReader:
    """As Spark before 4.2 asks it, which does not tell where the last batch ended."""
    made = TubeStreamReader(options())
    made._planner = planned.planner
    return made


def tasks(partitions: Sequence[InputPartition]) -> dict[int, list[tuple[str, int, int]]]:
    return in_rows(one for one in partitions if isinstance(one, ReadTask))


def test_batches_are_contiguous() -> None:
    """Each batch begins where the one before ended, although Spark does not say where."""
    cluster, clock = FakeCluster(partitions=1, rows=(0, 4)), FakeClock()
    one = reader(planner(cluster, clock, startingOffsets="earliest"))
    end = one.latestOffset()
    assert end == as_json({"1:t:0": 4})
    assert tasks(one.partitions(one.initialOffset(), end)) == {0: [("1:t:0", 0, 4)]}
    assert one.latestOffset() == end
    cluster.layouts = [TopicLayout("t", 1, 1, 2)]
    cluster.rows[STORE] = (2, 6)
    clock.now += 10
    assert one.latestOffset() == as_json({"1:t:0": 6, "1:t:1": 2}), "what is new enters at its first offset"


def test_restart_from_the_checkpoint() -> None:
    """Of which Spark tells by asking for an empty batch there."""
    seen = as_json({"1:t:0": 5})
    one = reader(
        planner(FakeCluster(rows=(1, 9)), startingOffsets='{"default": 28000}')
    )  # long out of date, and not looked at
    assert one.partitions(seen, seen) == []
    end = one.latestOffset()
    assert end == as_json({"1:t:0": 9, "1:t:1": 1})
    assert tasks(one.partitions(seen, end)) == {0: [("1:t:0", 5, 9)]}
    assert one.latestOffset() == as_json({"1:t:0": 9, "1:t:1": 9})
    lost = reader(planner(FakeCluster(rows=(1, 9))))
    lost.partitions(as_json({"1:t:0": 0}), as_json({"1:t:0": 0}))
    with pytest.raises(DataLoss, match="should be read from 0, but the broker holds it only from 28"):
        lost.latestOffset()
