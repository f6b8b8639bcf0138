"""Which node of a query has which partition while brokers close, come and go, and masters list them in other orders."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyspark.sql.datasource import InputPartition

from spark_source.plan.read_task import ReadTask
from spark_source.stream.planner import StreamPlanner
from spark_source.stream.stream_reader import TubeStreamReader
from tests.spark_source.fakes import STORE, FakeClock, FakeCluster, as_json, in_rows, options, planner
from tubeclient.errors import DataLoss
from tubeclient.keys import BrokerInfo, StoreKey, TopicLayout


class Query:
    """A query of two nodes on topic t, three partitions on each broker, to which rows come all the time."""

    def __init__(self, *broker_ids: int) -> None:
        self.cluster, self.clock = FakeCluster(), FakeClock()
        self.cluster.brokers = [BrokerInfo(number, "127.0.0.1", 8122 + number) for number in (1, 2, 3)]
        self.show(*broker_ids)
        self.cluster.rows = {StoreKey(number, "t", 0): (0, 10) for number in (1, 2, 3)}
        self.planner: StreamPlanner = planner(self.cluster, self.clock, startingOffsets="earliest")
        self.at = self.planner.initial()

    def show(self, *broker_ids: int, closed: int = 0) -> None:
        """From now on the master lists these brokers, in this order; one takes no readers."""
        self.cluster.layouts = [TopicLayout("t", number, 1, 3, number != closed) for number in broker_ids]

    def batch(self) -> dict[int, set[str]]:
        """The partitions that each node reads in the next batch."""
        self.clock.now += 60
        self.cluster.rows = {store: (0, high + 5) for store, (_, high) in self.cluster.rows.items()}
        start, self.at = self.at, self.planner.latest(self.at, None)
        tasks = in_rows(self.planner.partitions(start, self.at))
        return {node: {name for name, _, _ in ranges} for node, ranges in tasks.items()}

    @property
    def told(self) -> list[list[str]]:
        """What the master was told last of each node."""
        return [list(map(str, self.cluster.reported[node])) for node in (0, 1)]


EVENS, ODDS = ["1:t:0", "1:t:2", "2:t:1"], ["1:t:1", "2:t:0", "2:t:2"]


def test_a_partition_that_takes_no_readers_for_a_while_keeps_its_place() -> None:
    query = Query(1, 2)
    assert query.batch() == {0: set(EVENS), 1: set(ODDS)}
    query.show(1, 2, closed=1)
    for _ in range(2):
        assert query.batch() == {0: {"2:t:1"}, 1: {"2:t:0", "2:t:2"}}
    query.show(1, 2)
    assert query.batch() == {0: set(EVENS), 1: set(ODDS)}
    assert query.told == [EVENS, ODDS]
    assert query.cluster.count("report") == 1


def reader(planned: StreamPlanner) -> TubeStreamReader:
    """As Spark before 4.2 asks it, which does not tell where the last batch ended."""
    made = TubeStreamReader(options())
    made._planner = planned
    return made


def tasks(partitions: Sequence[InputPartition]) -> dict[int, list[tuple[str, int, int]]]:
    return in_rows(one for one in partitions if isinstance(one, ReadTask))


def test_without_being_told_each_batch_begins_where_the_one_before_ended() -> None:
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


def test_without_being_told_a_restart_goes_by_the_checkpoint() -> None:
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
