"""A broker is out of the cluster for a while, with its data: what is known of it is kept; with a cluster in memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from offsets_store import OffsetsTable
from tests.spark_source.fakes import ROW, FakeClock, FakeCluster, as_json, in_rows, key, planner
from tubeclient.errors import DataLoss
from tubeclient.keys import BrokerInfo, StoreKey, TopicLayout

FAR = StoreKey(2, "t", 0)

AWAY = (
    r"partition 2:t:0 should be read from 140, but the cluster no longer lists it: the master shows no "
    r"topic t on broker 2, while other brokers have it"
)
WAIT = r"Start again when the broker is back, or set failOnDataLoss=false to read the others meanwhile"


class Pair(FakeCluster):
    """Topic t with ten rows on each of two brokers, of which the second comes and goes."""

    def __init__(self) -> None:
        super().__init__(partitions=1)
        self.rows[FAR] = (0, 10)
        self.back()

    def back(self, *, with_topics: bool = True) -> None:
        self.brokers = [BrokerInfo(1, "127.0.0.1", 8123), BrokerInfo(2, "127.0.0.1", 8124)]
        self.layouts = [TopicLayout("t", 1, 1, 1), *([TopicLayout("t", 2, 1, 1)] if with_topics else [])]

    def away(self) -> None:
        self.brokers, self.layouts = self.brokers[:1], self.layouts[:1]


# A query with a checkpoint


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("available_now", [False, True])
def test_broker_resumes_after_absence(restarted: bool, available_now: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Also with a moment between, when it is listed and its topics are not yet: so it is on Apache's master."""
    clock, cluster = FakeClock(), Pair()
    one = planner(cluster, clock, failOnDataLoss="false")
    at = one.latest(as_json({"1:t:0": 5, "2:t:0": 5}), 0)
    cluster.away()
    for rows in (12, 14):
        clock.now += 60
        cluster.rows[StoreKey(1, "t", 0)] = (0, rows)
        if restarted:
            one = planner(cluster, clock, failOnDataLoss="false")
            if available_now:
                one.freeze_end()
        end = one.latest(at, None)
        assert end == as_json({"1:t:0": rows, "2:t:0": 5})
        assert [read for tasks in in_rows(one.partitions(at, end)).values() for read in tasks] == [
            ("1:t:0", at["1:t:0"]["0"] // ROW, rows)
        ]
        assert one.latest(end, None) is end
        at = json.loads(json.dumps(end))
        cluster.back(with_topics=False)
    assert caplog.text.count("continuing: ") == (2 if restarted else 1)
    cluster.back()
    cluster.rows[FAR] = (0, 15)
    clock.now += 60
    if restarted:
        one = planner(cluster, clock, failOnDataLoss="false")
    end = one.latest(at, None)
    assert in_rows(one.partitions(at, end)) == {1: [("2:t:0", 5, 15)]}
    told = caplog.text.count("continuing: ")
    cluster.away()
    clock.now += 60
    assert one.latest(end, None) is end
    assert caplog.text.count("continuing: ") == told + 1


@pytest.mark.parametrize("available_now", [False, True])
def test_absent_broker_is_an_error(available_now: bool) -> None:
    """The error for a broker that is away says what to do."""
    cluster = Pair()
    cluster.away()
    one = planner(cluster)
    if available_now:
        one.freeze_end()
    with pytest.raises(DataLoss, match=rf"{AWAY}.*\. {WAIT}") as caught:
        one.latest(as_json({"1:t:0": 5, "2:t:0": 5}), None)
    assert (caught.value.partition, caught.value.wanted) == ("2:t:0", 140)
    with pytest.raises(
        DataLoss, match=r"no longer lists it: broker 2 is away, and the batch .* Start again when the broker is back"
    ):
        one.partitions(as_json({"1:t:0": 5, "2:t:0": 5}), as_json({"1:t:0": 5, "2:t:0": 7}))


# A query that begins


def recorded(cluster: FakeCluster, table: Path, rows: dict[str, int]) -> OffsetsTable:
    before = planner(cluster, offsetsTable=table, startingOffsets="earliest")
    before.complete(as_json(rows))
    before.close()
    return OffsetsTable(str(table))


def test_latest_with_an_absent_broker(tmp_path: Path) -> None:
    """A query at latest begins where the table has a broker that is away."""
    cluster = Pair()
    recorded(cluster, tmp_path / "table", {"1:t:0": 6, "2:t:0": 5})
    cluster.away()
    one = planner(cluster, offsetsTable=tmp_path / "table", startingOffsets="latest")
    assert one.initial() == as_json({"1:t:0": 10, "2:t:0": 5})


def test_earliest_with_an_absent_broker(
    tmp_path: Path,
) -> None:
    """A query at earliest reads a returning broker from its first message despite the table."""
    clock, cluster = FakeClock(), Pair()
    recorded(cluster, tmp_path / "table", {"1:t:0": 6, "2:t:0": 5})
    cluster.away()
    one = planner(cluster, clock, offsetsTable=tmp_path / "table", startingOffsets="earliest")
    at = one.latest(one.initial(), None)
    cluster.back()
    clock.now += 60
    entered = one.latest(at, None)
    assert entered == as_json({"1:t:0": 10, "2:t:0": 0})
    assert in_rows(one.partitions(entered, one.latest(entered, None))) == {1: [("2:t:0", 0, 10)]}


@pytest.mark.parametrize(
    ("starting", "first"),
    [
        ("group", 6),
        ('{"1:t:0": "group", "default": "group"}', 6),
        ('{"1:t:0": 168}', 6),
        ('{"1:t:0": 28, "2:t:0": "group"}', 1),
        ('{"1:t:0": 28, "2:t:0": 140, "default": "earliest"}', 1),
    ],
)
def test_new_checkpoint_with_an_absent_broker(starting: str, first: int, tmp_path: Path) -> None:
    """And the table knows it still after commits of the run."""
    clock, cluster = FakeClock(), Pair()
    table = recorded(cluster, tmp_path / "table", {"1:t:0": 6, "2:t:0": 5})
    cluster.away()
    more = {"offsetsTable": tmp_path / "table", "startingOffsets": starting, "failOnDataLoss": "false"}
    one = planner(cluster, clock, **more)
    start = one.initial()
    assert start == as_json({"1:t:0": first, "2:t:0": 5})
    at = one.latest(start, None)
    one.complete(at)
    assert table.positions("g", ["t"]) == {key("1:t:0"): 10 * ROW, key("2:t:0"): 5 * ROW}
    cluster.back()
    clock.now += 60
    end = one.latest(at, None)
    assert in_rows(one.partitions(at, end)) == {1: [("2:t:0", 5, 10)]}
    one.close()
