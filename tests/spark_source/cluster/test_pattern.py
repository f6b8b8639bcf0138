"""subscribePattern without sockets: whose rows of the offsets table a query with a pattern has."""

from __future__ import annotations

from pathlib import Path

from offsets_store import GroupKey, OffsetsTable
from tests.spark_source.fakes import ROW, FakeClock, FakeCluster, as_json, planner
from tubeclient.keys import StoreKey, TopicLayout


def with_topic(cluster: FakeCluster, topic: str, rows: tuple[int, int]) -> None:
    cluster.layouts = [*cluster.layouts, TopicLayout(topic, 1, 1, 1)]
    cluster.rows[StoreKey(1, topic, 0)] = rows


def test_offsets_table_key_is_the_pattern(tmp_path: Path) -> None:
    """The offsets table stores a query's rows under its pattern, whatever topics match."""
    clock, cluster = FakeClock(), FakeCluster(rows=(0, 10))
    one = planner(cluster, clock, subscribe=None, subscribePattern="[t-z].*", offsetsTable=tmp_path)
    one.complete(as_json({"1:t:0": 4, "1:t:1": 4, "1:old:0": 2}))
    with_topic(cluster, "u", (0, 9))
    clock.now += 60
    one.complete(as_json({"1:t:0": 5, "1:t:1": 5, "1:u:0": 3}))
    table = OffsetsTable(str(tmp_path))
    kept = table.latest(GroupKey("g", pattern="[t-z].*"))
    assert kept is not None
    assert {str(row.partition): row.next_offset // ROW for row in kept.partitions} == {
        "1:t:0": 5,
        "1:t:1": 5,
        "1:u:0": 3,
    }
    assert table.latest(GroupKey("g", ["t"])) is None
    # Another run, of the pattern or of a topic's name, goes on from there.
    for more in ({"subscribe": None, "subscribePattern": "[t-z].*"}, {"subscribe": "t,u"}):
        began = planner(cluster, clock, startingOffsets="group", offsetsTable=tmp_path, **more).initial()
        assert began == as_json({"1:t:0": 5, "1:t:1": 5, "1:u:0": 3})
