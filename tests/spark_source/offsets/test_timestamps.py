"""Beginning and ending by time: the options, and what planning makes of them with a cluster in memory."""

from __future__ import annotations

import itertools
import logging

import pytest

from spark_source.progress.progress_table import ProgressTable
from spark_source.stream.batch_reader import plan_batch
from tests.spark_source.fakes import ROW, FakeCluster, as_json, options, planner
from tubeclient.errors import ConfigurationError, NoMessageTime

MINUTE = 60_000
"""In the fake cluster row n is of minute n of 1970."""


def batch(cluster: FakeCluster, **more: object) -> dict[str, tuple[int, int]]:
    """Start and end in rows, by partition."""
    chosen = options(**more)
    return {
        str(read.partition): (read.start // ROW, read.end // ROW)
        for one in plan_batch(chosen, cluster, ProgressTable(chosen))
        for read in one.ranges
    }


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"startingTimestamp": 4 * MINUTE}, {"1:t:0": 4, "1:t:1": 4}),
        ({"startingTimestamp": 5 * MINUTE - 1}, {"1:t:0": 4, "1:t:1": 4}),
        ({"startingTimestamp": 0}, {"1:t:0": 2, "1:t:1": 2}),
        ({"startingTimestamp": 3 * MINUTE, "startingOffsets": "latest"}, {"1:t:0": 3, "1:t:1": 3}),
        ({"startingTimestamp": 10 * MINUTE}, {"1:t:0": 10, "1:t:1": 10}),
    ],
)
def test_a_stream_begins_at_a_time(more: dict[str, object], expected: dict[str, int]) -> None:
    cluster = FakeCluster(rows=(2, 10))
    assert planner(cluster, None, messageTimeZone="Asia/Shanghai", **more).initial() == as_json(expected)
    assert cluster.count("times of Asia/Shanghai") == 1


def test_adjacent_batches_share_no_message() -> None:
    """Batches of adjacent times share no message and leave none out."""
    cluster = FakeCluster(partitions=1, rows=(2, 10))
    cuts = [0, 5 * MINUTE, 5 * MINUTE + 59_999, 8 * MINUTE, 300 * MINUTE]
    found = [batch(cluster, startingTimestamp=start, endingTimestamp=end) for start, end in itertools.pairwise(cuts)]
    assert found == [{"1:t:0": (2, 5)}, {}, {"1:t:0": (5, 8)}, {"1:t:0": (8, 10)}]


def test_a_batch_may_end_by_time_alone() -> None:
    cluster = FakeCluster(rows=(2, 10))
    assert batch(cluster, endingTimestamp=180_000) == {"1:t:0": (2, 3), "1:t:1": (2, 3)}
    # Where a partition begins behind its end in time it has nothing to read.
    assert batch(cluster, startingOffsets='{"1:t:0": 140, "default": -2}', endingTimestamp=180_000) == {"1:t:1": (2, 3)}


@pytest.mark.parametrize("more", [{"startingTimestamp": 1}, {"endingTimestamp": 1}])
def test_messages_without_a_time(more: dict[str, object]) -> None:
    """The error for messages without a time says what to do."""
    cluster = FakeCluster()
    cluster.timeless = NoMessageTime("the message with id 7 of partition 1:t:0 carries no time", partition="1:t:0")
    message = r"a start or end by time uses .* 1:t:0 carries no time\. .* of topic t set it, or name offsets instead"
    with pytest.raises(ConfigurationError, match=message):
        batch(cluster, **more)
    assert cluster.calls[-1] == "lookup closed"


def test_a_beginning_that_may_move_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        planner(FakeCluster(rows=(2, 10)), startingTimestamp=240_000).initial()
        assert caplog.text == ""
        planner(FakeCluster(rows=(2, 10)), startingTimestamp=660_000).initial()
    assert "Set offsetsTable to keep the initial offsets" in caplog.text


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"startingTimestamp": "yesterday"}, "the time 'yesterday' of startingTimestamp is not a number of millisec"),
        ({"startingTimestamp": 1_700_000_000_000_000}, "the time '1700000000000000' of startingTimestamp is not"),
        (
            {"startingTimestamp": 120_000, "endingTimestamp": 60_000},
            r"endingTimestamp 60000 \(1970-01-01 00:01 UTC\) is before startingTimestamp 120000 .*; swap",
        ),
    ],
)
def test_wrong_times_are_refused_at_load(more: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        options(**more).check_batch()
