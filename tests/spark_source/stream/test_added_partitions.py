"""Partitions that are added to a store in use while a query runs; Spark's part is done by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from spark_source.stream.planner import StreamPlanner
from tests.spark_source.by_hand import Query
from tests.waiting import wait_for
from tubeclient.wire.payload import encode_payload

ROW = 28
OLD = 1_000
"""Messages of the first partition before there is another."""


@pytest.fixture
def tube(tmp_path: Path) -> Iterator[EmbeddedTubeMQ]:
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("t")]) as running:
        yield running


def send(tube: EmbeddedTubeMQ, partition_id: int, label: str, count: int) -> list[bytes]:
    bodies = [b"%d-%s-%d" % (partition_id, label.encode(), number) for number in range(count)]
    tube.load("t", [NewMessage(partition_id, *encode_payload(body, "")) for body in bodies])
    return bodies


def at(query: Query, partition_id: int) -> int | None:
    """Where a partition stands in the checkpoint."""
    assert query.checkpoint is not None
    for spans, offset in query.checkpoint.get("1:t:0", {}).items():
        first, _, last = spans.partition("-")
        if int(first) <= partition_id <= int(last or first):
            return int(offset)
    return None


def enter(tube: EmbeddedTubeMQ, query: Query, one: StreamPlanner) -> None:
    """Have the query read everything and look once more; add a partition, and go on until the query knows it."""
    query.until(one, OLD)
    for _ in range(3):
        one._held().snapshots.get(fresh=True)
    tube.grow_topic("t", partitions=2)
    wait_for(lambda: (query.batch(one, 10), at(query, 1) is not None)[1], "the new partition")


def test_a_partition_enters_where_the_store_ended_before_it_was_there(tube: EmbeddedTubeMQ) -> None:
    """Retention takes the store's first messages before the query could have passed them for the new partition."""
    query = Query(tube, subscribe="t", startingOffsets="earliest")
    expected = send(tube, 0, "old", OLD)
    with query.run() as one:
        enter(tube, query, one)
        assert at(query, 1) == OLD * ROW
        expected += send(tube, 1, "new", 50) + send(tube, 0, "new", 50)
        query.batch(one, 10)
        tube.expire("t", (OLD - 10) * ROW)
        while len(query.rows) < len(expected):
            query.batch(one, 10)
    assert sorted(query.rows) == sorted(expected)


def test_what_comes_with_the_partition_is_read(tube: EmbeddedTubeMQ) -> None:
    """It is written to before the query hears of it, and the query is started again in between."""
    query = Query(tube, subscribe="t", startingOffsets="earliest", partitionRefreshInterval="3s")
    expected = send(tube, 0, "old", OLD)
    with query.run() as one:
        query.until(one, OLD)
        one._held().snapshots.get(fresh=True)
        tube.grow_topic("t", partitions=2)
        expected += send(tube, 1, "new", 5)
        one._held().snapshots.get(fresh=True)
        expected += send(tube, 0, "new", 5) + send(tube, 1, "newer", 5)
        wait_for(lambda: (query.batch(one, 4), at(query, 1) is not None)[1], "the new partition")
    with query.run() as one:
        while len(query.rows) < len(expected):
            query.batch(one, 4)
    assert sorted(query.rows) == sorted(expected)
