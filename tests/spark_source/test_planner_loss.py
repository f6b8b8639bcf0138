"""What a stream was to read and is gone, lost, or missed for a moment; with a cluster in memory."""

from __future__ import annotations

from typing import Any

import pytest

from tests.spark_source.fakes import STORE, FakeClock, FakeCluster, as_json, in_rows, planner
from tubeclient.errors import ConfigurationError, DataLoss
from tubeclient.keys import TopicLayout


def test_a_planned_range_whose_partition_went_is_a_loss(caplog: pytest.LogCaptureFixture) -> None:
    start, end = as_json({"1:t:0": 0, "2:t:0": 1}), as_json({"1:t:0": 4, "2:t:0": 4})
    with pytest.raises(DataLoss, match="partition 2:t:0 was to be read from 28 on, but the cluster does not list it"):
        planner(FakeCluster()).partitions(start, end)
    one = planner(FakeCluster(), failOnDataLoss="false")
    for _ in range(2):
        assert in_rows(one.partitions(start, end)) == {0: [("1:t:0", 0, 4)]}
    assert caplog.text.count("going on: partition 2:t:0") == 1


def test_a_topic_that_went_and_came_again_is_told_of_twice(caplog: pytest.LogCaptureFixture) -> None:
    clock, cluster = FakeClock(), FakeCluster(partitions=1)
    one = planner(cluster, clock, failOnDataLoss="false")
    start = as_json({"1:t:0": 10})
    assert one.latest(start, None) is start
    layouts, cluster.layouts = cluster.layouts, []
    clock.now += 60
    assert one.latest(start, None) is start
    cluster.layouts, cluster.rows[STORE] = layouts, (0, 4)
    clock.now += 60
    assert one.latest(start, None) == as_json({"1:t:0": 4})
    assert "the cluster does not list it any more" in caplog.text
    assert (
        "the broker's data ends at 112: it lost its tail (at most 6 messages), or the topic was deleted or made"
        in caplog.text
    )


def test_a_topic_that_goes_while_the_query_runs_is_a_loss() -> None:
    clock, cluster = FakeClock(), FakeCluster()
    one = planner(cluster, clock)
    start = one.initial()
    one.latest(start, None)
    cluster.layouts = []
    clock.now += 60
    with pytest.raises(DataLoss, match=r"partition 1:t:0 .* its topic was taken away, .*\(and 1 more"):
        one.latest(start, None)


def test_an_assigned_partition_that_is_gone_is_a_loss_and_one_that_never_was_an_error() -> None:
    given: dict[str, Any] = {"subscribe": None, "assign": '["1:t:0", "1:t:7"]'}
    with pytest.raises(ConfigurationError, match="assign names partition 1:t:7"):
        planner(FakeCluster(), **given).latest(as_json({"1:t:0": 4}), None)
    with pytest.raises(DataLoss, match="partition 1:t:7 was to be read from 28 on"):
        planner(FakeCluster(), **given).latest(as_json({"1:t:0": 4, "1:t:7": 1}), None)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            (7, 10),
            r"1:t:0 was to be read from 140 on, but the broker holds it from 196 on: at most 2 messages have exp",
        ),
        (
            (0, 3),
            r"1:t:0 was to be read from 140 on, but the broker's data ends at 84: .*at most 2 messages\), or",
        ),
    ],
)
@pytest.mark.parametrize("available_now", [False, True])
def test_positions_that_brokers_lost_are_an_error(rows: tuple[int, int], message: str, available_now: bool) -> None:
    cluster = FakeCluster(rows=rows)
    one = planner(cluster)
    if available_now:
        one.freeze_target()
    with pytest.raises(DataLoss, match=message + r".*\(and 1 more partitions like it\). Set failOnDataLoss") as caught:
        one.latest(as_json({"1:t:0": 5, "1:t:1": 5}), None)
    assert (caught.value.partition, caught.value.wanted) == ("1:t:0", 140)


def test_a_passing_wrong_look_is_no_loss() -> None:
    cluster = FakeCluster(rows=(0, 10))
    cluster.next_rows = [{STORE: (0, 3)}]
    assert planner(cluster).latest(as_json({"1:t:0": 5, "1:t:1": 5}), None) == as_json({"1:t:0": 10, "1:t:1": 10})


def test_loss_can_be_accepted_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    clock, cluster = FakeClock(), FakeCluster(rows=(0, 3))
    one = planner(cluster, clock, failOnDataLoss="false")
    start = as_json({"1:t:0": 0, "1:t:1": 4})
    cluster.rows[STORE] = (2, 9)
    for _ in range(50):
        clock.now += 0.1
        assert one.latest(start, 1) == as_json({"1:t:0": 3, "1:t:1": 4})
    assert caplog.text.count("going on: partition 1:t:0") == 1
    assert "at most 2 messages have expired" in caplog.text
    assert cluster.count("bounds") == 50 + 1  # the second look is taken once


def test_after_a_lost_tail_that_was_accepted_what_comes_is_read(caplog: pytest.LogCaptureFixture) -> None:
    """Also where the topic was made anew, and it takes years until it is as long as it was."""
    clock, cluster = FakeClock(), FakeCluster(rows=(0, 3))
    one = planner(cluster, clock, failOnDataLoss="false")
    start = as_json({"1:t:0": 1000, "1:t:1": 2})
    end = one.latest(start, None)
    assert end == as_json({"1:t:0": 3, "1:t:1": 3})
    assert in_rows(one.partitions(start, end)) == {1: [("1:t:1", 2, 3)]}
    assert one.latest(end, None) is end
    cluster.rows[STORE] = (0, 7)
    clock.now += 1
    more = one.latest(end, None)
    assert in_rows(one.partitions(end, more)) == {0: [("1:t:0", 3, 7)], 1: [("1:t:1", 3, 7)]}
    assert caplog.text.count("going on: partition 1:t:0") == 1
    assert "at most 997 messages" in caplog.text


@pytest.mark.parametrize("available_now", [False, True])
def test_partitions_that_are_gone_are_a_loss(available_now: bool, caplog: pytest.LogCaptureFixture) -> None:
    start = as_json({"1:t:0": 10, "1:t:1": 10, "2:t:0": 5})
    one, lenient = planner(FakeCluster()), planner(FakeCluster(), failOnDataLoss="false")
    for each in (one, lenient):
        if available_now:
            each.freeze_target()
    with pytest.raises(DataLoss, match=r"partition 2:t:0 .* from 140 on, but the cluster does not list it any more"):
        one.latest(start, None)
    for _ in range(3):
        assert lenient.latest(start, None) == start
    assert caplog.text.count("going on: partition 2:t:0") == 1


def test_a_topic_that_is_no_longer_subscribed_is_left_where_it_is() -> None:
    start = as_json({"1:t:0": 10, "1:t:1": 10, "2:old:0": 5})
    assert planner(FakeCluster()).latest(start, None) == start
    fewer = planner(FakeCluster(), subscribe=None, assign='["1:t:0"]')
    assert fewer.latest(as_json({"1:t:0": 10, "1:t:1": 5}), None) == as_json({"1:t:0": 10, "1:t:1": 5})


def test_a_partition_that_the_master_misses_for_a_moment_is_no_loss() -> None:
    cluster = FakeCluster(stores=2, partitions=1)
    whole = cluster.layouts
    cluster.layouts = [TopicLayout("t", 1, 1, 1)]
    one = planner(cluster)
    one.freeze_target()
    cluster.layouts = whole
    one.latest(as_json({"1:t:0": 10, "1:t:10000": 5}), None)
