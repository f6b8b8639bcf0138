"""Planning for Spark 4.0 and 4.1, which do not say where a batch begins; with a cluster in memory."""

from __future__ import annotations

import pytest

from tests.spark_source.fakes import STORE, FakeClock, FakeCluster, as_json, in_rows, planner
from tubeclient.errors import DataLoss
from tubeclient.keys import TopicLayout


def test_without_being_told_each_batch_begins_where_the_one_before_ended() -> None:
    cluster, clock = FakeCluster(partitions=1, rows=(0, 4)), FakeClock()
    one = planner(cluster, clock, startingOffsets="earliest")
    end = one.latest_from_here()
    assert end == as_json({"1:t:0": 4})
    assert in_rows(one.partitions(one.initial(), end)) == {0: [("1:t:0", 0, 4)]}
    assert one.latest_from_here() == end
    cluster.layouts = [TopicLayout("t", 1, 1, 2)]
    cluster.rows[STORE] = (2, 6)
    clock.now += 10
    assert one.latest_from_here() == as_json({"1:t:0": 6, "1:t:1": 2}), "what is new enters at its first offset"


def test_without_being_told_a_first_batch_from_latest_has_nothing_of_it() -> None:
    clock, cluster = FakeClock(), FakeCluster(rows=(0, 10))
    one = planner(cluster, clock)
    end = one.latest_from_here()
    cluster.rows[STORE] = (0, 13)
    assert one.initial() == end == as_json({"1:t:0": 10, "1:t:1": 10})
    clock.now += 60
    more = one.latest_from_here()
    assert in_rows(one.partitions(end, more)) == {0: [("1:t:0", 10, 13)], 1: [("1:t:1", 10, 13)]}


def test_without_being_told_a_restart_goes_by_the_checkpoint() -> None:
    """Of which Spark tells by asking for an empty batch there."""
    seen = as_json({"1:t:0": 5})
    one = planner(FakeCluster(rows=(1, 9)), startingOffsets='{"default": 28000}')  # long out of date, and not looked at
    assert one.partitions(seen, seen) == []
    end = one.latest_from_here()
    assert end == as_json({"1:t:0": 9, "1:t:1": 1})
    assert in_rows(one.partitions(seen, end)) == {0: [("1:t:0", 5, 9)]}
    assert one.latest_from_here() == as_json({"1:t:0": 9, "1:t:1": 9})
    lost = planner(FakeCluster(rows=(1, 9)))
    lost.partitions(as_json({"1:t:0": 0}), as_json({"1:t:0": 0}))
    with pytest.raises(DataLoss, match="should be read from 0, but the broker holds it only from 28"):
        lost.latest_from_here()


def test_without_being_told_a_closed_partition_stays_where_it_is() -> None:
    cluster = FakeCluster(partitions=1)
    cluster.layouts = [TopicLayout("t", 1, 1, 1, subscribable=False)]
    one, seen = planner(cluster), as_json({"1:t:0": 5})
    one.partitions(seen, seen)
    assert one.latest_from_here() == seen
