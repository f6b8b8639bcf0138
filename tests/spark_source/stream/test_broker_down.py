"""One broker of several is down: what it holds waits, the rest is read; with a cluster in memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_source.progress.progress_table import ProgressTable
from spark_source.stream.batch_reader import plan_batch
from spark_source.stream.beginning import OffsetFinder, starts_again
from spark_source.stream.snapshot import Layout, Snapshot
from tests.spark_source.fakes import ROW, FakeClock, FakeCluster, as_json, in_rows, key, options, planner
from tubeclient.errors import ConfigurationError, ConnectError
from tubeclient.keys import BrokerInfo, StoreKey, TopicLayout

FAR = StoreKey(2, "t", 0)


def cluster(*, down: bool = True) -> FakeCluster:
    """Topic t with one partition on each of two brokers, of which the second is down; ten rows each, from 3 on."""
    made = FakeCluster(partitions=1, rows=(3, 10))
    made.brokers.append(BrokerInfo(2, "127.0.0.1", 8124))
    made.layouts.append(TopicLayout("t", 2, 1, 1))
    made.rows[FAR] = (3, 10)
    made.silent = {2} if down else set()
    return made


@pytest.mark.parametrize("restarted", [False, True])
def test_start_of_a_broker_that_returns(restarted: bool) -> None:
    """A partition begins at its planned start when its broker is back."""
    clock, one_down = FakeClock(), cluster()
    one = planner(one_down, clock, startingOffsets="earliest")
    start = as_json({"1:t:0": 3})
    assert one.initial() == start
    first = one.latest(start, None)
    one_down.rows[StoreKey(1, "t", 0)] = (3, 11)
    clock.now += 60
    at = one.latest(first, None)
    assert at == {**start, "1:t:0": {"0": 11 * ROW}}
    assert in_rows(one.partitions(first, at)) == {0: [("1:t:0", 10, 11)]}
    assert one.latest(at, None) is at
    one_down.silent, one_down.rows[FAR] = set(), (3, 12)
    clock.now += 60
    if restarted:
        at = json.loads(json.dumps(at))
        one = planner(one_down, clock, startingOffsets="earliest")
    with_it = one.latest(at, None)
    assert with_it == as_json({"1:t:0": 11, "2:t:0": 3})
    assert one.partitions(at, with_it) == []
    one_down.rows[FAR] = (3, 15)
    clock.now += 60
    end = one.latest(with_it, None)
    assert in_rows(one.partitions(with_it, end)) == {1: [("2:t:0", 3, 15)]}
    assert one.latest(end, None) is end


@pytest.mark.parametrize(
    ("starting", "said"),
    [
        ({"startingOffsets": "group:latest"}, "broker 2 is down"),
        ({"startingOffsets": "latest"}, r"startingOffsets has latest, .* the broker of 2:t:0 does not answer"),
        ({"startingOffsets": '{"1:t:0": 112, "2:t:0": -1}'}, r"startingOffsets has latest, .* the broker of 2:t:0"),
        ({"startingTimestamp": 300_000}, r"startingTimestamp is a time, .* the broker of 2:t:0 does not answer"),
    ],
)
def test_starts_that_need_all_brokers(starting: dict[str, object], said: str) -> None:
    """A start that depends on all brokers is an error if one is down."""
    with pytest.raises(ConnectError, match=said):
        planner(cluster(), None, **starting).initial()


def test_group_start_from_the_table(tmp_path: Path) -> None:
    """The group resumes from the table while a broker is down."""
    clock, one_down, table = FakeClock(), cluster(down=False), tmp_path / "table"
    before = planner(one_down, offsetsTable=table)
    before.complete(as_json({"1:t:0": 4, "2:t:0": 5}))
    before.close()
    one_down.silent = {2}
    one = planner(one_down, clock, offsetsTable=table, startingOffsets="group")
    assert one.initial() == as_json({"1:t:0": 4, "2:t:0": 5})


# Trigger.AvailableNow


@pytest.mark.parametrize("since_the_start", [True, False])
def test_available_now_is_not_complete(since_the_start: bool) -> None:
    """AvailableNow reads the rest and then fails if a broker is down."""
    clock, one_down = FakeClock(), cluster(down=since_the_start)
    one = planner(one_down, clock, startingOffsets="earliest")
    one.freeze_end()
    start = one.latest(one.initial(), 2)
    one_down.silent = {2}
    clock.now += 60
    end = one.latest(start, None)
    assert in_rows(one.partitions(start, end)) == {0: [("1:t:0", 5 if since_the_start else 4, 10)]}
    left = r"AvailableNow has read all except 1 partition \(2:t:0\), whose brokers do not answer: broker 2 is down"
    with pytest.raises(ConnectError, match=left):
        one.latest(end, None)


def test_available_now_with_a_late_broker() -> None:
    """To where that ended when it was heard first."""
    clock, one_down = FakeClock(), cluster()
    one = planner(one_down, clock, startingOffsets="earliest")
    one.freeze_end()
    at = one.initial()
    one_down.silent = set()
    while (end := one.latest(at, 4)) is not at:
        clock.now += 60
        one_down.rows[FAR] = (3, one_down.rows[FAR][1] + 5)
        at = end
    assert at == as_json({"1:t:0": 10, "2:t:0": 15})


# Others who ask brokers


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_batch_read_is_whole_or_an_error(fail: str) -> None:
    chosen = options(failOnDataLoss=fail)
    with pytest.raises(ConnectError, match=r"a batch read needs all brokers .*: broker 2 is down"):
        plan_batch(chosen, cluster(), ProgressTable(chosen))


def test_replayed_first_batch_waits() -> None:
    """A first batch that runs again fails until all brokers of its plan answer."""
    clock, made = FakeClock(), cluster(down=False)
    one = planner(made, clock, startingOffsets="earliest")
    start = one.initial()
    end = one.latest(start, None)
    first = in_rows(one.partitions(start, end))
    made.silent = {2}
    again = planner(made, clock, startingOffsets="earliest")
    start = again.initial()
    assert "2:t:0" not in start
    with pytest.raises(ConnectError):
        again.partitions(start, end)
    made.silent = set()
    assert in_rows(again.partitions(start, end)) == first


@pytest.mark.parametrize("fail", [True, False])
def test_broker_silent_during_planning(fail: bool) -> None:
    """Planning fails if a broker falls silent between two questions of a batch."""
    chosen, made = options(startingOffsets="earliest", failOnDataLoss=fail), cluster()
    finder = OffsetFinder(made.lookup(), chosen, ProgressTable(chosen))
    look = Snapshot.of(Layout(chosen.selector(), made.shown()), made.lookup())
    with pytest.raises(ConnectError, match=r"1 partition \(2:t:0\) have no start because their broker does not answer"):
        starts_again([key("2:t:0")], look, finder)


@pytest.mark.parametrize("away", [False, True])
def test_replayed_first_batch_is_whole(away: bool, caplog: pytest.LogCaptureFixture) -> None:
    """The query reads less than before, or the master does not list a broker now."""
    clock, made = FakeClock(), cluster(down=False)
    one = planner(made, clock, startingOffsets="earliest")
    end = one.latest(one.initial(), None)
    first = in_rows(one.partitions(one.initial(), end))
    less: dict[str, object] = {"startingOffsets": "earliest"}
    if away:
        made.layouts.pop()
    else:
        less |= {"subscribe": None, "assign": '["1:t:0"]'}
    again = planner(made, clock, **less)
    start = again.initial()
    with pytest.raises(
        ConfigurationError, match=r"first batch has not completed, and it includes 1 partition \(2:t:0\)"
    ):
        again.partitions(start, end)
    lenient = planner(made, clock, **less, failOnDataLoss=False)
    assert in_rows(lenient.partitions(lenient.initial(), end)) == {0: [("1:t:0", 3, 10)]}
    assert "continuing: the checkpoint's first batch has not completed" in caplog.text
    if away:
        made.layouts.append(TopicLayout("t", 2, 1, 1))
    whole = planner(made, clock, startingOffsets="earliest")
    assert in_rows(whole.partitions(whole.initial(), end)) == first
