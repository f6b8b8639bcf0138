"""What the planner tells of itself: at the start, at each reassignment, and the plan of each batch."""

from __future__ import annotations

import logging

import pytest

from tests.spark_source.fakes import ROW, FakeClock, FakeCluster, planner
from tubeclient.keys import TopicLayout


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "spark_source")
    return caplog


def lines(told: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in told.records]
    told.clear()
    return found


def test_a_start_a_reassignment_and_batches(told: pytest.LogCaptureFixture) -> None:
    cluster, clock = FakeCluster(partitions=3), FakeClock()
    query = planner(cluster, clock, startingOffsets="earliest")
    start = query.initial()
    assert lines(told)[-2:] == [
        "the query holds the 2 nodes of consumerGroup g and reads t",
        'the query has no checkpoint and begins at {"default": "earliest"}',
    ]

    def batch() -> None:
        nonlocal start
        clock.now += 10
        cluster.rows = {store: (0, high + 5) for store, (_, high) in cluster.rows.items()}
        end = query.latest(start, None)
        query.complete(start)
        query.partitions(start, end)
        start = end

    def planned(start: int, end: int) -> str:
        return (
            f"batch planned: 3 ranges for 2 of 2 nodes, assigned by modulo: node 0 reads 1:t:0[{start * ROW}, "
            f"{end * ROW}), 1:t:2[{start * ROW}, {end * ROW}); node 1 reads 1:t:1[{start * ROW}, {end * ROW})"
        )

    batch()
    assert lines(told) == [
        "partitions are assigned by modulo: 3 partitions to 2 nodes, 1 to 2 each",
        planned(0, 10),
    ]
    for _ in range(5):
        batch()
    assert lines(told) == [planned(10, 20), *(planned(end - 5, end) for end in (25, 30, 35, 40))]
    query.partitions(start, start)  # as Spark asks at a restart, before it plans anything
    assert lines(told) == []
    cluster.layouts = [TopicLayout("t", 1, 1, 4)]
    batch()
    assert lines(told)[:-1] == [
        "partitions are assigned by modulo: 4 partitions to 2 nodes, 2 each; 1 are new, 0 are gone, 0 have moved to "
        "another node"
    ]
