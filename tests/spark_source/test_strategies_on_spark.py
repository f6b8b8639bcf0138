"""Who reads what on a real Spark: by each kind of strategy, told in the table, over changes of sourceCount."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from offsets_store import GroupKey, OffsetsTable, PartitionProgress
from tests.spark_source.feed import Feed
from tests.spark_source.queries import Read, bodies_of, reads_of, run_available, stream
from tubeclient.assignment import Assignment, Hints
from tubeclient.keys import PartitionKey

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ENTRY = 28


def last_first(keys: Sequence[PartitionKey], source_count: int, hints: Hints) -> Assignment:
    """A strategy of a user's own, which the planner's process imports."""
    return [list(keys)[source_count - 1 - node :: source_count] for node in range(source_count)]


class Runs:
    """Runs of one query, each until nothing is left; what was read, and what the table says of it."""

    def __init__(self, spark: SparkSession, feed: Feed, folder: Path) -> None:
        self._spark = spark
        self._feed = feed
        self._folder = folder
        self.reads: list[Read] = []

    def run(self, strategy: str, source_count: int, **more: object) -> dict[int, PartitionProgress]:
        """Read what is there; returns the table's rows by partition id."""

        def keep(frame: DataFrame, batch_id: int) -> None:
            self.reads += reads_of(frame)

        options = self._feed.options(
            "",
            startingOffsets="earliest",
            assignmentStrategy=strategy,
            sourceCount=source_count,
            offsetsTable=self._folder / "offsets",
            **more,
        )
        run_available(stream(self._spark, options), self._folder / "checkpoint", keep)
        self._feed.wait_until_free()
        key = GroupKey(f"{self._feed.topic}_group", [self._feed.topic])
        latest = OffsetsTable(str(self._folder / "offsets")).latest(key)
        assert latest is not None
        assert latest.source_count == source_count
        return {row.partition.partition_id: row for row in latest.partitions}


def test_strategy_and_source_count_change_between_runs(delta_spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    runs = Runs(delta_spark, feed, tmp_path)
    nodes: list[list[int | None]] = []
    ends = dict.fromkeys(feed.partition_ids, 0)
    own = f"{__name__}:last_first"
    for strategy, source_count in [("averagely", 2), ("sticky", 2), ("sticky", 4), (own, 2), ("modulo", 1)]:
        feed.send(40)
        rows = runs.run(strategy, source_count)
        assert bodies_of(runs.reads) == feed.sent
        assert {row.reason for row in rows.values()} == {strategy}
        assert {number: row.start_offset for number, row in rows.items()} == ends
        ends = {number: row.next_offset for number, row in rows.items()}
        nodes.append([row.node_id for row in rows.values()])
    of_four = nodes.pop(2)
    assert nodes == [[0, 0, 1, 1], [0, 0, 1, 1], [1, 0, 1, 0], [0, 0, 0, 0]]
    assert sorted(of_four, key=str) == [0, 1, 2, 3]
    assert (0 in of_four[:2], 1 in of_four[2:]) == (True, True)  # half of them stayed


@pytest.mark.merge
def test_backlog_takeover_is_in_the_table(delta_spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    """Partitions 0 and 1 share store 0, the others store 1: a store's entries are read for each of its partitions."""
    runs = Runs(delta_spark, feed, tmp_path)
    feed.send(400, partitions=[0])
    rows = runs.run("backlog", 2)
    assert {rows[0].node_id, rows[1].node_id} == {0, 1}
    feed.send(400, partitions=[10_000])
    takeover = {"backlogTakeover": True, "backlogTakeoverMinRows": 100}
    rows = runs.run("backlog", 4, **takeover)
    assert bodies_of(runs.reads) == feed.sent
    assert [(rows[number].start_offset, rows[number].readers) for number in (0, 1)] == [(400 * ENTRY, ())] * 2
    for number in (10_000, 10_001):
        row, parts = rows[number], rows[number].readers
        assert (parts[0].node_id, row.reason) == (row.node_id, "backlog; backlog taken over")
        assert [0, *(one.end_offset for one in parts)] == [*(one.start_offset for one in parts), row.next_offset]
        assert row.next_offset == 400 * ENTRY
    assert len({one.node_id for number in (10_000, 10_001) for one in rows[number].readers}) == 4
