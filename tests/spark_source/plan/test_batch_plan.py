"""What a batch read plans, with a cluster in memory."""

from __future__ import annotations

import logging

import pytest

from spark_source.progress.progress_table import ProgressTable
from spark_source.stream.batch_reader import plan_batch
from tests.spark_source.fakes import FakeCluster, in_rows, key, options
from tubeclient.errors import ConfigurationError, DataLoss


def plan(cluster: FakeCluster, **more: object) -> dict[int, list[tuple[str, int, int]]]:
    """Partition, start and end in rows, by node."""
    chosen = options(**more)
    return in_rows(plan_batch(chosen, cluster, ProgressTable(chosen)))


def test_idle_node_shares_the_backlog(caplog: pytest.LogCaptureFixture) -> None:
    """An idle node reads half of a backlog that exceeds backlogTakeoverMinRows."""
    caplog.set_level(logging.INFO, "spark_source")
    cluster = FakeCluster(partitions=1, rows=(0, 100))
    given = {"sourceCount": 2, "backlogTakeover": True, "backlogTakeoverMinRows": 99}
    assert plan(cluster, **given) == {0: [("1:t:0", 0, 50)], 1: [("1:t:0", 50, 100)]}
    assert (
        "batch read planned: 2 ranges for 2 of 2 nodes, assigned by modulo: node 0 reads 1:t:0[0, 1400); "
        "node 1 reads 1:t:0[1400, 2800) (backlog of node 0)"
    ) in caplog.text
    alone = {0: [("1:t:0", 0, 100)]}
    assert plan(cluster, **{**given, "backlogTakeoverMinRows": 100}) == alone
    assert plan(cluster, **{**given, "backlogTakeover": False}) == alone


@pytest.mark.parametrize(
    ("starting", "ending", "error", "message"),
    [
        ('{"default": 0}', "latest", DataLoss, "1:t:0 should be read from 0, .* only from 56: at most 2 messages"),
        ('{"default": 280}', "latest", DataLoss, "the broker's data ends at 252"),
        (
            "earliest",
            '{"default": 280}',
            ConfigurationError,
            "endingOffsets 280 of partition 1:t:0 is outside .* 252",
        ),
        ("earliest", '{"default": 28}', ConfigurationError, "endingOffsets 28 of partition 1:t:0 is outside"),
        (
            '{"default": 140}',
            '{"default": 84}',
            ConfigurationError,
            "endingOffsets 84 .* is before its start at 140",
        ),
    ],
)
def test_offsets_outside_of_what_is_there(starting: str, ending: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        plan(FakeCluster(partitions=1, rows=(2, 9)), startingOffsets=starting, endingOffsets=ending)


def test_nothing_is_lost_at_the_first_look() -> None:
    """A broker that starts may tell less than it holds; and at the second look more may have expired."""
    cluster = FakeCluster(stores=2, partitions=1, rows=(2, 9))
    first, second = key("1:t:0").store, key("1:t:10000").store
    cluster.next_rows = [{first: (2, 4), second: (2, 9)}, {first: (2, 9), second: (5, 9)}]
    starting = '{"1:t:0": 140, "default": "earliest"}'
    assert plan(cluster, startingOffsets=starting) == {0: [("1:t:0", 5, 9)], 1: [("1:t:10000", 5, 9)]}
    assert cluster.count("bounds") == 2

    cluster.next_rows = [{first: (6, 9), second: (2, 9)}, {first: (6, 9), second: (2, 9)}]
    with pytest.raises(DataLoss, match="partition 1:t:0 should be read from 140"):
        plan(cluster, startingOffsets=starting)
    assert cluster.count("bounds") == 4


def test_loss_can_be_accepted(caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster(partitions=1, rows=(2, 9))
    with caplog.at_level(logging.WARNING):
        assert plan(cluster, startingOffsets='{"default": 0}', failOnDataLoss="false") == {0: [("1:t:0", 2, 9)]}
        assert plan(cluster, startingOffsets='{"default": 280}', failOnDataLoss="false") == {}
        gone = '{"default": "earliest", "3:t:0": 28}'
        assert plan(cluster, startingOffsets=gone, failOnDataLoss="false") == {0: [("1:t:0", 2, 9)]}
    assert caplog.text.count("failOnDataLoss is false; continuing: partition 1:t:0") == 2
