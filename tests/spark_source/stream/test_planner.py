"""The planner's promises to Spark, with a cluster in memory: each call asks little, repeats itself, and never lies."""

from __future__ import annotations

import json

import pytest

from spark_source.plan.read_task import OffsetRule
from spark_source.stream.snapshot import MIN_REFRESH_SECONDS
from tests.spark_source.fakes import ROW, STORE, FakeClock, FakeCluster, FakeLookup, as_json, in_rows, key, planner
from tubeclient.errors import ConfigurationError, ConnectionLost, NodeIdConflict
from tubeclient.keys import StoreKey, TopicLayout
from tubeclient.metadata import ClusterView
from tubeclient.positions.offset_lookup import OffsetSnapshot

# The beginning


@pytest.mark.parametrize(
    ("starting", "expected"),
    [
        ("earliest", {"1:t:0": 3, "1:t:1": 3}),
        ("latest", {"1:t:0": 10, "1:t:1": 10}),
        ('{"1:t:0": "earliest", "default": -1}', {"1:t:0": 3, "1:t:1": 10}),
        # Offsets in a topic were reached before: what they do not name came later.
        ('{"1:t:0": 112, "default": -1}', {"1:t:0": 4, "1:t:1": 3}),
        ('{"1:t:0": {"0": 112}, "default": "latest"}', {"1:t:0": 4, "1:t:1": 3}),
        ('{"1:t:0": {"0-1": 140}}', {"1:t:0": 5, "1:t:1": 5}),
    ],
)
def test_a_query_begins_where_the_options_say(starting: str, expected: dict[str, int]) -> None:
    assert planner(FakeCluster(rows=(3, 10)), startingOffsets=starting).initial() == as_json(expected)


def test_only_assigned_partitions_are_read() -> None:
    one = planner(FakeCluster(partitions=3), subscribe=None, assign='["1:t:2", "1:t:0"]', startingOffsets="earliest")
    start = one.initial()
    assert start == as_json({"1:t:0": 0, "1:t:2": 0})
    end = one.latest(start, None)
    assert in_rows(one.partitions(start, end)) == {0: [("1:t:0", 0, 10)], 1: [("1:t:2", 0, 10)]}


def test_what_is_read_has_to_exist() -> None:
    with pytest.raises(ConfigurationError, match=r"assign names partition 1:t:5, .* topic t has 1:t:0, 1:t:1"):
        planner(FakeCluster(), subscribe=None, assign='["1:t:5"]').initial()
    with pytest.raises(ConfigurationError, match="no broker of the cluster has topic u"):
        planner(FakeCluster(), subscribe="t,u").initial()
    with pytest.raises(
        ConfigurationError, match="the checkpoint belongs to topics old, but the query reads t; give the query"
    ):
        planner(FakeCluster()).latest(as_json({"1:old:0": 5}), None)


# Batches


def test_idle_query_asks_little() -> None:
    """An idle query gets its own start back, and the brokers are rarely asked."""
    clock, cluster = FakeClock(), FakeCluster()
    one = planner(cluster, clock, startingOffsets="latest")
    start = one.initial()
    assert one.latest(start, None) is start
    asked = cluster.count("bounds")
    for _ in range(90):  # Spark's rate over a second
        clock.now += 1 / 90
        assert one.latest(start, None) is start
        assert json.dumps(one.reported_latest()) == json.dumps(start)
    assert cluster.count("bounds") - asked <= 1 / MIN_REFRESH_SECONDS


def test_slow_brokers_are_asked_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planner spends a tenth of its time on questions if brokers answer slowly."""
    clock, cluster = FakeClock(), FakeCluster()
    one = planner(cluster, clock, startingOffsets="earliest")
    at, snapshot = one.initial(), FakeLookup.snapshot
    took: list[float] = []

    def slowly(lookup: FakeLookup, view: ClusterView) -> OffsetSnapshot:
        took.append(0.2)
        clock.now += took[-1]
        return snapshot(lookup, view)

    monkeypatch.setattr(FakeLookup, "snapshot", slowly)
    began = clock.now
    for row in range(200):  # while messages arrive all the time
        clock.now += 0.1
        cluster.rows[STORE] = (0, 10 + row)
        at = one.latest(at, None)
    assert 0.08 < sum(took) / (clock.now - began) < 0.12


def test_same_batch_has_the_same_tasks() -> None:
    """A batch has the same tasks whenever it is planned, whatever arrived since."""
    clock, cluster = FakeClock(), FakeCluster()
    one = planner(cluster, clock)
    start, end = as_json({"1:t:0": 0, "1:t:1": 0}), as_json({"1:t:0": 4, "1:t:1": 4})
    first = one.partitions(start, end)
    cluster.rows[STORE] = (0, 99)
    clock.now += 60
    assert one.partitions(start, end) == first
    assert planner(cluster).partitions(start, end) == first


def test_new_partitions() -> None:
    """The planner reads a new partition from its first message."""
    clock, cluster = FakeClock(), FakeCluster(partitions=1, rows=(2, 10))
    one = planner(cluster, clock)
    start = one.initial()
    assert one.latest(start, None) is start
    cluster.layouts = [TopicLayout("t", 1, 2, 1)]
    cluster.rows[StoreKey(1, "t", 1)] = (3, 7)
    clock.now += 60
    entered = one.latest(start, None)
    assert entered == as_json({"1:t:0": 10, "1:t:10000": 3})
    assert one.partitions(start, entered) == []
    assert one.latest(entered, None) == as_json({"1:t:0": 10, "1:t:10000": 7})


def test_closed_partitions_wait() -> None:
    clock, cluster = FakeClock(), FakeCluster(partitions=1)
    cluster.layouts = [TopicLayout("t", 1, 1, 1, subscribable=False)]
    one = planner(cluster, clock, startingOffsets="earliest")
    start = one.initial()
    for _ in range(3):
        clock.now += 1
        assert one.latest(start, None) is start


def test_tasks_are_told_what_is_known_of_offsets() -> None:
    start, end = as_json({"1:t:0": 0}), as_json({"1:t:0": 4})

    def rules(cluster: FakeCluster, filters: str | None = None, assign: str | None = None) -> list[OffsetRule]:
        one = planner(cluster, filters=filters, assign=assign, subscribe=None if assign else "t")
        return [part.offset_rule_of(read.partition) for part in one.partitions(start, end) for read in part.ranges]

    assert rules(FakeCluster(partitions=1)) == [OffsetRule.ALWAYS]
    assert rules(FakeCluster(partitions=1), filters='{"t": ["a"]}') == [OffsetRule.UNKNOWN]
    assert rules(FakeCluster(partitions=2), assign='["1:t:0"]') == [OffsetRule.UNKNOWN]
    # A partition was added since the batch was planned: what had offsets keeps them.
    assert rules(FakeCluster(partitions=2)) == [OffsetRule.IF_COMPLETE]
    two = planner(FakeCluster(partitions=2)).partitions(
        {"1:t:0": {"0-1": 0}, "version": 1}, {"1:t:0": {"0-1": 4 * ROW}, "version": 1}
    )
    assert [one.offset_rule_of(read.partition) for one in two for read in one.ranges] == [OffsetRule.UNKNOWN] * 2


# The group


def test_group_is_joined_and_informed() -> None:
    """The planner joins the group and reports the partitions of its nodes once."""
    cluster = FakeCluster(partitions=3)
    one = planner(cluster, groupJoinTimeout="7s")
    start = one.initial()
    one.partitions(start, start)
    assert cluster.calls.index("join 7000") < cluster.calls.index("bounds")
    assert cluster.source_count == 2
    assert cluster.reported == {0: [key("1:t:0"), key("1:t:2")], 1: [key("1:t:1")]}
    reports = cluster.count("report")
    one.partitions(start, start)
    assert cluster.count("report") == reports


def test_group_in_use() -> None:
    """A group that is in use is an error, and the planner leaves it once."""
    cluster = FakeCluster()
    cluster.refusal = NodeIdConflict(430, "held")
    one = planner(cluster)
    with pytest.raises(NodeIdConflict):
        one.initial()
    one.close()
    one.close()
    assert cluster.count("leave") == 1


@pytest.mark.parametrize("available_now", [False, True])
def test_close_releases_everything_once(available_now: bool) -> None:
    """Closing leaves the group and then closes the lookup, each once."""
    cluster = FakeCluster()
    one = planner(cluster)
    if available_now:
        one.freeze_end()
    one.initial()
    one.close()
    one.close()
    assert cluster.calls[-2:] == ["leave", "lookup closed"]
    assert (cluster.count("leave"), cluster.count("lookup closed")) == (1, 1)
    assert one.reported_latest() is None


@pytest.mark.parametrize("available_now", [False, True])
def test_a_lost_group_ends_the_query(available_now: bool) -> None:
    clock, cluster = FakeClock(), FakeCluster()
    one = planner(cluster, clock)
    if available_now:
        one.freeze_end()
    start = one.initial()
    cluster.failure = ConnectionLost("taken over")
    with pytest.raises(ConnectionLost, match="taken over"):
        one.latest(start, None)


# Trigger.AvailableNow


def test_available_now_ends_at_its_target() -> None:
    """AvailableNow ends at its target although messages keep arriving."""
    clock, cluster = FakeClock(), FakeCluster(rows=(0, 10))
    one = planner(cluster, clock, startingOffsets="earliest")
    one.freeze_end()
    at = one.initial()
    batches = 0
    while (end := one.latest(at, 4)) is not at:
        cluster.rows[STORE] = (0, cluster.rows[STORE][1] + 100)
        clock.now += 10
        at, batches = end, batches + 1
    assert at == as_json({"1:t:0": 10, "1:t:1": 10})
    assert batches == 3
