"""subscribePattern without sockets: which topics, when the group is joined or changed, and whose rows in the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from offsets_store import GroupKey, OffsetsTable
from spark_source.cluster.cluster import NOTHING, PatternMembership
from spark_source.options.given import parse_options
from spark_source.options.source_options import SourceOptions
from tests.spark_source.fakes import ROW, FakeClock, FakeCluster, as_json, planner
from tubeclient.consumers.group import GroupMembership
from tubeclient.errors import ConnectError, NodeIdConflict, TopicNotDeployed
from tubeclient.keys import BrokerInfo, PartitionKey, StoreKey, TopicLayout
from tubeclient.metadata import ClusterView

LEAST = {"masterservers": "m", "consumergroup": "g"}


def parse(**more: str) -> SourceOptions:
    return parse_options({**LEAST, **more})


# The option


# The membership


class FakeGroup(GroupMembership):
    """A group at a master: what happens to it is in `calls`."""

    def __init__(self) -> None:
        self.calls: list[object] = []
        self.refusal: Exception | None = None
        self.topics: Sequence[str] = ()
        self.token: int | None = None

    def make(self, topics: Sequence[str]) -> FakeGroup:
        self.topics = topics
        return self

    def join(self, occupied_timeout_ms: float = 0) -> ClusterView:
        self.calls.append(("join", *self.topics, occupied_timeout_ms))
        if self.refusal is not None:
            raise self.refusal
        self.token = 7
        return self.view()

    def view(self) -> ClusterView:
        return ClusterView.of([BrokerInfo(1, "h", 1)], [TopicLayout(topic, 1, 1, 1) for topic in self.topics])

    def refreshed_view(self, timeout_ms: float = 0) -> ClusterView:
        self.calls.append(("ask the master", timeout_ms))
        return self.view()

    @property
    def visit_token(self) -> int | None:
        return self.token

    def report(self, held: Mapping[int, Sequence[PartitionKey]]) -> None:
        self.calls.append(("report", dict(held)))

    def change_topics(self, topics: Sequence[str]) -> None:
        self.topics = topics
        self.calls.append(("change", *topics))

    def close(self) -> None:
        self.calls.append("leave")

    @property
    def changes(self) -> list[object]:
        return [call for call in self.calls if call[0] != "report"]  # type: ignore[index]


class Watched:
    """A membership whose topics a test sets; each `later` is past the interval."""

    def __init__(self, *topics: str) -> None:
        self.topics: list[str] = list(topics)
        self.fault: ConnectError | None = None
        self.looks = 0
        self.clock = FakeClock()
        self.group = FakeGroup()
        self.membership = PatternMembership(self._look, self.group.make, 30_000, self.clock)

    def _look(self) -> list[str]:
        self.looks += 1
        if self.fault is not None:
            raise self.fault
        return self.topics

    def later(self, *topics: str) -> list[str]:
        self.topics = list(topics)
        self.clock.now += 30
        return self.seen()

    def seen(self) -> list[str]:
        return [layout.topic for layout in self.membership.view().layouts]


def test_topics_that_appear_are_joined_for_at_the_next_look() -> None:
    watched = Watched("a")
    watched.membership.join(5)
    watched.topics = ["b", "a"]
    for _ in range(100):
        assert watched.seen() == ["a"]
    assert watched.looks == 1
    assert watched.later("b", "a") == ["a", "b"]
    assert watched.later("a", "b") == ["a", "b"]
    assert watched.group.changes == [("join", "a", 5), ("change", "a", "b")]


def test_a_group_is_joined_when_the_first_topic_appears(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched()
    assert watched.membership.join(5) is NOTHING
    assert watched.membership.visit_token is None
    held = {0: [PartitionKey(1, "a", 0)]}
    watched.membership.report(held)
    assert watched.later() == []
    assert watched.group.calls == []
    assert watched.later("a") == ["a"]
    assert watched.group.calls == [("join", "a", 5), ("report", held)]
    assert watched.membership.visit_token == 7
    assert caplog.text.count("no topic matches subscribePattern") == 1


def test_a_topic_is_given_up_when_two_looks_missed_it() -> None:
    watched = Watched("a", "b")
    watched.membership.join(0)
    assert watched.later("a") == ["a", "b"]
    assert watched.later("a", "b") == ["a", "b"]
    assert watched.later("a") == ["a", "b"]
    assert watched.later("a") == ["a"]
    assert watched.group.changes == [("join", "a", "b", 0), ("change", "a")]


def test_a_look_that_fails_changes_nothing_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched("a")
    watched.membership.join(0)
    watched.fault = ConnectError("no web port")
    assert [watched.later("b") for _ in range(3)] == [["a"]] * 3
    assert caplog.text.count("reading the known ones: no web port") == 1
    watched.fault = None
    assert watched.later("a", "b") == ["a", "b"]


def test_a_group_that_is_held_ends_it_and_a_topic_that_went_does_not(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched("a")
    watched.group.refusal = TopicNotDeployed(431, "gone")
    assert watched.membership.join(0) is NOTHING
    assert "a topic was removed during the join" in caplog.text
    watched.group.refusal = NodeIdConflict(430, "held")
    with pytest.raises(NodeIdConflict):
        watched.later("a")
    watched.membership.close()
    assert watched.group.changes == [("join", "a", 0), "leave", ("join", "a", 0), "leave"]


# The planner


def with_topic(cluster: FakeCluster, topic: str, rows: tuple[int, int]) -> None:
    cluster.layouts = [*cluster.layouts, TopicLayout(topic, 1, 1, 1)]
    cluster.rows[StoreKey(1, topic, 0)] = rows


def test_the_offsets_tables_run_is_the_patterns_whatever_it_matches(tmp_path: Path) -> None:
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
