"""What a stream was to read and is gone, lost, or missed for a moment; with a cluster in memory."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from spark_source.offsets.offsets import Offsets
from spark_source.progress.progress_table import ProgressTable
from spark_source.stream.planner import StreamPlanner
from tests.spark_source.as_spark import JsonPlanner
from tests.spark_source.fakes import ROW, STORE, FakeClock, FakeCluster, as_json, in_rows, key, options, planner
from tubeclient.errors import DataLoss
from tubeclient.keys import StoreKey, TopicLayout


def test_planned_partition_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    """A planned range is a loss if its partition no longer exists."""
    start, end = as_json({"1:t:0": 0, "2:t:0": 1}), as_json({"1:t:0": 4, "2:t:0": 4})
    with pytest.raises(DataLoss, match="partition 2:t:0 should be read from 28, but the cluster no longer lists it"):
        planner(FakeCluster()).partitions(start, end)
    one = planner(FakeCluster(), failOnDataLoss="false")
    for _ in range(2):
        assert in_rows(one.partitions(start, end)) == {0: [("1:t:0", 0, 4)]}
    assert caplog.text.count("continuing: partition 2:t:0") == 1


def test_expired_before_joining() -> None:
    """As `ingest` does for the tables of streams, each of which ends elsewhere."""
    cluster, behind = FakeCluster(partitions=1, rows=(3, 10)), Offsets({key("1:t:0"): 0})
    one, lenient = planner(cluster), planner(cluster, failOnDataLoss="false")
    for each in (one, lenient):
        each.freeze_end()
    assert "only from 84: at most 3 messages have expired" in str(one.expired(behind))
    assert lenient.expired(behind) is None
    for rows in (3, 10, 11):  # what lacks at the end is none of its business
        assert one.expired(Offsets({key("1:t:0"): rows * ROW})) is None
    assert "join" not in " ".join(cluster.calls)


@pytest.mark.parametrize("rows", [4, 10, 12])
@pytest.mark.parametrize("restarted", [False, True])
def test_recreated_topic(rows: int, restarted: bool, caplog: pytest.LogCaptureFixture) -> None:
    """However long it has grown: what stood at its name is forgotten, in the checkpoint too."""
    clock, cluster = FakeClock(), FakeCluster(partitions=1)
    one = planner(cluster, clock, failOnDataLoss="false")
    start = as_json({"1:t:0": 10})
    assert one.latest(start, None) is start
    layouts, cluster.layouts = cluster.layouts, []
    clock.now += 60
    forgotten = one.latest(start, None)
    assert forgotten == as_json({})
    assert one.partitions(start, forgotten) == []
    assert one.latest(forgotten, None) is forgotten
    cluster.layouts, cluster.rows[STORE] = layouts, (0, rows)
    clock.now += 60
    if restarted:
        one = planner(cluster, clock, failOnDataLoss="false")
    entered = one.latest(forgotten, None)
    assert entered == as_json({"1:t:0": 0})
    end = one.latest(entered, None)
    assert in_rows(one.partitions(entered, end)) == {0: [("1:t:0", 0, rows)]}
    assert caplog.text.count("continuing: ") == 1
    assert "the cluster no longer lists it" in caplog.text


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            (7, 10),
            r"1:t:0 should be read from 140, but the broker holds it only from 196: at most 2 messages have exp",
        ),
        (
            (0, 3),
            r"1:t:0 should be read from 140, but the broker's data ends at 84: .*at most 2 messages\), or",
        ),
    ],
)
@pytest.mark.parametrize("available_now", [False, True])
def test_positions_that_brokers_lost_are_an_error(rows: tuple[int, int], message: str, available_now: bool) -> None:
    cluster = FakeCluster(rows=rows)
    one = planner(cluster)
    if available_now:
        one.freeze_end()
    with pytest.raises(DataLoss, match=message + r".*\(and 1 more like it: 1:t:1\). Set") as caught:
        one.latest(as_json({"1:t:0": 5, "1:t:1": 5}), None)
    assert (caught.value.partition, caught.value.wanted) == ("1:t:0", 140)


def keeping(cluster: FakeCluster, **more: Any) -> StreamPlanner:
    """As `ingest` plans."""
    given = options(**more)
    return StreamPlanner(given, cast(Any, cluster), ProgressTable(given), keeps_start=True)


@pytest.mark.parametrize(("at", "found"), [(12, "data ends at 280"), (2, "only from 84")])
def test_start_that_brokers_do_not_hold(at: int, found: str) -> None:
    """A job whose start brokers do not hold is refused before it keeps it, unless it has read up to there."""
    cluster = FakeCluster(rows=(3, 10))
    wrong = json.dumps({"1:t:0": at * ROW, "1:t:1": 5 * ROW})
    one = keeping(cluster, startingOffsets=wrong)
    with pytest.raises(DataLoss, match=f"1:t:0 should be read from {at * ROW}, .*{found}.*, or start at offsets that"):
        one.initial()
    cluster.rows[STORE] = (0, 20)
    assert keeping(cluster, startingOffsets="earliest").initial() == Offsets({key("1:t:0"): 0, key("1:t:1"): 0})
    cluster.rows[STORE] = (3, 10)
    for lenient in ({"failOnDataLoss": "false"}, {}):
        known = () if lenient else (key("1:t:0"),)
        start = keeping(cluster, startingOffsets=wrong, **lenient).initial(known)
        assert start == Offsets({key("1:t:0"): at * ROW, key("1:t:1"): 5 * ROW})


def test_a_passing_wrong_look_is_no_loss() -> None:
    cluster = FakeCluster(rows=(0, 10))
    cluster.next_rows = [{STORE: (0, 3)}]
    assert planner(cluster).latest(as_json({"1:t:0": 5, "1:t:1": 5}), None) == as_json({"1:t:0": 10, "1:t:1": 10})


def test_reading_after_a_lost_tail(caplog: pytest.LogCaptureFixture) -> None:
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
    assert caplog.text.count("continuing: partition 1:t:0") == 1
    assert "at most 997 messages" in caplog.text


@pytest.mark.parametrize("available_now", [False, True])
def test_partitions_that_are_gone_are_a_loss(available_now: bool, caplog: pytest.LogCaptureFixture) -> None:
    start = as_json({"1:t:0": 10, "1:t:1": 10, "1:t:10000": 5})
    one, lenient = planner(FakeCluster()), planner(FakeCluster(), failOnDataLoss="false")
    for each in (one, lenient):
        if available_now:
            each.freeze_end()
    with pytest.raises(DataLoss, match=r"partition 1:t:10000 .* from 140, but the cluster no longer lists it"):
        one.latest(start, None)
    end = as_json({"1:t:0": 10, "1:t:1": 10})
    for _ in range(3):
        assert lenient.latest(start, None) == end
    assert lenient.latest(end, None) is end
    assert caplog.text.count("continuing: partition 1:t:10000") == 1


@pytest.mark.parametrize("fail", [True, False])
def test_tail_lost_during_available_now(fail: bool, caplog: pytest.LogCaptureFixture) -> None:
    """It ends where the broker does, and says what is missing; what comes later belongs to the next run."""
    clock, cluster = FakeClock(), FakeCluster(partitions=1, rows=(0, 10))
    one = planner(cluster, clock, failOnDataLoss=str(fail).lower())
    one.freeze_end()
    at = one.latest(as_json({"1:t:0": 0}), 4)
    cluster.rows[STORE] = (0, 6)
    clock.now += 60
    if fail:
        with pytest.raises(DataLoss, match=r"1:t:0 should be read up to 280, .* now ends at 168: .*at most 4 messages"):
            one.latest(at, 4)
        return
    end = one.latest(at, 4)
    assert in_rows(one.partitions(at, end)) == {0: [("1:t:0", 4, 6)]}
    for _ in range(3):
        assert one.latest(end, 4) is end
        clock.now += 60
    assert caplog.text.count("continuing: partition 1:t:0 should be read up to 280") == 1


@pytest.mark.parametrize("rows", [(8, 10), (0, 3)])
def test_partition_removed_from_assign(rows: tuple[int, int]) -> None:
    """Its broker may hold what it will."""
    one = planner(FakeCluster(rows=rows), subscribe=None, assign='["1:t:0"]')
    high = rows[1]
    assert one.latest(as_json({"1:t:0": high - 1, "1:t:1": 5}), None) == as_json({"1:t:0": high, "1:t:1": 5})


@pytest.mark.parametrize("reading", [{"subscribe": "t"}, {"subscribe": None, "subscribePattern": "t"}])
def test_a_topic_that_is_not_read_any_more_is_no_loss(reading: dict[str, Any]) -> None:
    """Though the cluster shows it, as a group that is shared does."""
    cluster = FakeCluster(partitions=1)
    cluster.layouts.append(TopicLayout("old", 1, 1, 1))
    cluster.rows[StoreKey(1, "old", 0)] = (8, 9)
    start = as_json({"1:t:0": 5, "1:old:0": 4})
    assert planner(cluster, **reading).latest(start, None) == as_json({"1:t:0": 10, "1:old:0": 4})


def with_a_new_partition(
    one: JsonPlanner, clock: FakeClock, cluster: FakeCluster
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Where an empty batch begins and ends in which a partition enters."""
    start = as_json({"1:t:0": 10})
    assert one.latest(start, None) is start
    cluster.layouts = [TopicLayout("t", 1, 1, 2)]
    clock.now += 60
    return start, one.latest(start, None)


@pytest.mark.parametrize("restarted", [False, True])
def test_expiry_before_a_new_partitions_batch(restarted: bool, caplog: pytest.LogCaptureFixture) -> None:
    """It enters at its store's first offset, with an empty batch; nobody knows whether the old messages are its own."""
    clock, cluster = FakeClock(), FakeCluster(partitions=1)
    one = planner(cluster, clock)
    start, entered = with_a_new_partition(one, clock, cluster)
    assert entered == as_json({"1:t:0": 10, "1:t:1": 0})
    assert one.partitions(start, entered) == []
    cluster.rows[STORE] = (6, 12)
    clock.now += 60
    if restarted:  # nobody knows any more that nothing of it was read
        with pytest.raises(DataLoss, match="partition 1:t:1 should be read from 0, but the broker holds it only from"):
            planner(cluster, clock).latest(entered, None)
        return
    end = one.latest(entered, None)
    assert end == as_json({"1:t:0": 12, "1:t:1": 12})
    cluster.rows[STORE] = (8, 12)  # what was planned is read, or a loss
    clock.now += 60
    for _ in range(2):
        assert in_rows(one.partitions(entered, end)) == {0: [("1:t:0", 10, 12)], 1: [("1:t:1", 6, 12)]}
    assert caplog.text.count("partition 1:t:1 was added at 0, but the broker holds it only from 168") == 1
    cluster.rows[STORE] = (13, 14)
    clock.now += 60
    with pytest.raises(DataLoss, match=r"1:t:0 should be read from 336.*and 1 more like it: 1:t:1"):
        one.latest(end, None)


def test_expiry_after_a_partition_entered() -> None:
    """Expired messages of a new partition are a loss if they arrived after it entered."""
    clock, cluster = FakeClock(), FakeCluster(partitions=1)
    one = planner(cluster, clock)
    _, entered = with_a_new_partition(one, clock, cluster)
    cluster.rows[STORE] = (11, 12)
    clock.now += 60
    with pytest.raises(DataLoss, match=r"1:t:0 should be read from 280.*and 1 more like it: 1:t:1"):
        one.latest(entered, None)
