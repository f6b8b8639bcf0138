"""A group's nodes at the master: joining, being refused, staying, being forgotten, leaving."""

from __future__ import annotations

import random
from typing import Any

import pytest

from embedded_tubemq.common.catalogue import BrokerState, Catalogue, TopicConfig
from embedded_tubemq.master.master import Master
from tests.tubeclient.simulation import Actor, Simulation, Weather
from tubeclient.errors import GroupConflict, NodeIdConflict, SourceCountConflict
from tubeclient.flows.effects import Flow, Sleep
from tubeclient.flows.hold_group import (
    HEARTBEAT_INTERVAL_MS,
    MASTER_LEASE_MS,
    MembershipRequest,
    hold_group,
    register_first,
)
from tubeclient.flows.master import GroupNode, MasterList, MetadataCache, close_nodes, query_view
from tubeclient.keys import BrokerInfo, PartitionKey
from tubeclient.metadata import ClusterView
from tubeclient.wire.methods import Method

STORM = Weather(lose_request=0.02, lose_answer=0.02, break_connection=0.02)
FIRST, SECOND = "10.0.0.1:8715", "10.0.0.2:8715"


class Cluster:
    """Two masters that share a catalogue, the first one active."""

    def __init__(self, weather: Weather | None = None) -> None:
        self.catalogue = Catalogue(1, [TopicConfig("clicks", 2, 2), TopicConfig("other")])
        self.catalogue.put_broker(BrokerState(BrokerInfo(1, "10.0.0.9", 8123), 8081))
        self.active, self.standby = Master(self.catalogue), Master(self.catalogue)
        self.standby.faults.standby = True
        self.simulation = Simulation({FIRST: self.active, SECOND: self.standby}, 5, weather)

    def hold(
        self,
        run: str,
        source_count: int,
        *,
        orders: MembershipRequest | None = None,
        occupied_timeout_ms: float = 0,
        masters: tuple[str, ...] = (SECOND, FIRST),
        topic: str = "clicks",
        after_ms: float = 0,
    ) -> Actor:
        nodes = [
            GroupNode(f"{run}-{node_id}", "etl", (topic,), "host", source_count, node_id)
            for node_id in range(source_count)
        ]
        flow = hold_group(
            MasterList(masters),
            nodes,
            orders or MembershipRequest(),
            random.Random(1),
            occupied_timeout_ms=occupied_timeout_ms,
            refresh_interval_ms=10_000,
        )
        return self.simulation.start(flow, after_ms=after_ms)

    def hold_node(self, run: str, node_id: int, source_count: int, request: MembershipRequest) -> Actor:
        """One of a group's nodes alone."""
        node = GroupNode(f"{run}-{node_id}", "etl", ("clicks",), "host", source_count, node_id)
        flow = hold_group(
            MasterList((FIRST,)),
            [node],
            request,
            random.Random(1),
            occupied_timeout_ms=0,
            refresh_interval_ms=10_000,
        )
        return self.simulation.start(flow)

    def members(self, master: Master | None = None) -> dict[str, int]:
        group = (master or self.active).groups.get("etl")
        return {} if group is None else {c.client_id: c.node_id for c in group.consumers.values()}


def views(actor: Actor) -> list[ClusterView]:
    return [event for event in actor.emitted if isinstance(event, ClusterView)]


def fail(actor: Actor) -> Any:
    assert actor.done
    assert actor.error is not None
    raise actor.error


@pytest.mark.parametrize("weather", [STORM, Weather(come_late=0.05)])
def test_members_stay_for_hours_and_follow_the_layout(weather: Weather) -> None:
    cluster = Cluster(weather)
    actor = cluster.hold("a", 2)
    cluster.simulation.run(for_ms=1_800_000)
    cluster.catalogue.grow_topic("clicks", stores=3)
    cluster.simulation.run(for_ms=120_000)
    assert not actor.done
    assert cluster.members() == {"a-0": 0, "a-1": 1}
    assert len(views(actor)[0].partitions()) == 4
    assert len(views(actor)[-1].partitions()) == 6


@pytest.mark.parametrize("weather", [STORM, Weather(come_late=0.1)])
def test_topic_change_on_bad_network(weather: Weather) -> None:
    """Nodes change to other topics even on a bad network."""
    cluster, request = Cluster(weather), MembershipRequest()
    actor = cluster.hold("a", 2, orders=request, occupied_timeout_ms=60_000)
    for topics in (("clicks", "other"), ("other",), ("clicks",)):
        request.topics = topics
        cluster.simulation.run(for_ms=300_000)
        assert not actor.done
        assert (
            {key.topic for key in views(actor)[-1].partitions()}
            == set(topics)
            == set(cluster.active.groups["etl"].first.topics)
        )
        assert cluster.members() == {"a-0": 0, "a-1": 1}


def test_a_topic_that_is_not_there_is_waited_for() -> None:
    cluster, request = Cluster(), MembershipRequest()
    actor = cluster.hold("a", 2, orders=request)
    request.topics = ("clicks", "new")
    cluster.simulation.run(for_ms=120_000)
    assert not actor.done
    cluster.catalogue.put_topic(TopicConfig("new"))
    cluster.simulation.run(for_ms=20_000)
    assert {key.topic for key in views(actor)[-1].partitions()} == {"clicks", "new"}


def test_takeover_during_topic_change() -> None:
    """A run raises GroupConflict if another run takes its group over during a topic change."""
    cluster, request = Cluster(), MembershipRequest()
    actor = cluster.hold("a", 2, orders=request)
    cluster.simulation.run(for_ms=5_000)
    cluster.active.faults.force(Method.CONSUMER_REGISTER_V2, 431)  # it has to try a second time
    request.topics = ("other",)
    while cluster.members():
        cluster.simulation.run(for_ms=10)
    thief = cluster.hold("thief", 2)
    cluster.simulation.run(for_ms=70_000)
    assert not thief.done
    with pytest.raises(GroupConflict):
        fail(actor)


def test_no_topics() -> None:
    """Nodes register only while there are topics."""
    cluster, request = Cluster(), MembershipRequest(topics=())
    actor = cluster.hold("a", 2, orders=request)
    cluster.simulation.run(for_ms=100_000)
    assert not actor.done
    assert cluster.members() == {}
    assert not any(view.partitions() for view in views(actor))
    for topics in (("clicks",), (), ("other",)):
        request.topics, request.owned = topics, {0: [PartitionKey(1, "clicks", len(topics))]}
        cluster.simulation.run(for_ms=60_000)
        assert {key.topic for key in views(actor)[-1].partitions()} == set(topics)
        assert cluster.members() == ({"a-0": 0, "a-1": 1} if topics else {})


def test_missing_topic_of_changing_topics() -> None:
    """A join waits for a missing topic if the topics may come and go."""
    cluster, request = Cluster(), MembershipRequest(topics=("clicks", "gone"))
    actor = cluster.hold("a", 2, orders=request)
    cluster.simulation.run(for_ms=20_000)
    assert not actor.done
    assert not views(actor)[-1].partitions()
    request.topics = ("clicks",)
    cluster.simulation.run(for_ms=20_000)
    assert cluster.members() == {"a-0": 0, "a-1": 1}


def test_clients_see_change_at_different_times() -> None:
    """The first one waits for the second; what it waits to join with may change meanwhile."""
    cluster, requests = Cluster(), [MembershipRequest(), MembershipRequest()]
    actors = [cluster.hold_node(run, node, 2, requests[node]) for node, run in enumerate("ab")]
    cluster.catalogue.put_topic(TopicConfig("third"))
    cluster.simulation.run(for_ms=5_000)
    requests[0].topics = ("clicks", "other")
    cluster.simulation.run(for_ms=20_000)
    assert cluster.members() == {"b-1": 1}
    requests[0].topics = ("clicks", "third")
    cluster.simulation.run(for_ms=20_000)
    requests[1].topics = ("clicks", "third")
    cluster.simulation.run(for_ms=20_000)
    assert cluster.members() == {"a-0": 0, "b-1": 1}
    assert [{key.topic for key in views(actor)[-1].partitions()} for actor in actors] == [{"clicks", "third"}] * 2


def test_missing_topic_does_not_flood_master() -> None:
    """Also when there is something to report."""
    cluster, request = Cluster(), MembershipRequest(topics=("clicks",))
    cluster.hold("a", 1, orders=request, masters=(FIRST,))
    cluster.simulation.run(for_ms=1_000)
    joins, register = [], cluster.active._calls[Method.CONSUMER_REGISTER_V2]

    def counting(*arguments: Any) -> Any:
        joins.append(1)
        return register(*arguments)

    cluster.active._calls[Method.CONSUMER_REGISTER_V2] = counting
    request.topics, request.owned = ("new",), {0: [PartitionKey(1, "clicks", 0)]}
    cluster.simulation.run(for_ms=60_000)
    assert 5 < len(joins) < 30


def test_a_second_run_is_refused_while_the_first_lives(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster()
    first = cluster.hold("a", 2)
    second = cluster.hold("b", 2, occupied_timeout_ms=120_000, after_ms=100)
    other_count = cluster.hold("c", 3, occupied_timeout_ms=1_000, after_ms=100)
    cluster.simulation.run(for_ms=200_000)
    assert not first.done
    told = [text for text in caplog.messages if "(NODE_OCCUPIED). Waiting up to" in text]
    assert len(told) == 2  # at once and every minute
    with pytest.raises(NodeIdConflict, match="etl node 0 of 2"):
        fail(second)
    with pytest.raises(SourceCountConflict, match="etl node 0 of 3"):
        fail(other_count)
    assert cluster.members() == {"a-0": 0, "a-1": 1}


def test_two_runs_start_together() -> None:
    """One of two runs that start together gets all nodes, and the other ends."""
    cluster = Cluster()
    actors = [cluster.hold(run, 4, occupied_timeout_ms=20_000) for run in "ab"]
    cluster.simulation.run(for_ms=60_000)
    assert sorted(actor.done for actor in actors) == [False, True]
    assert len(cluster.members()) == 4
    assert len({client_id[0] for client_id in cluster.members()}) == 1


@pytest.mark.parametrize(("count", "topic"), [(2, "clicks"), (3, "clicks"), (2, "other")])
def test_a_dead_runs_nodes_are_had_when_its_lease_ends(count: int, topic: str) -> None:
    """With other nodes and other topics too: a job is often killed to be changed."""
    cluster = Cluster()
    dead = cluster.hold("dead", 2)
    cluster.simulation.run(for_ms=20_000)
    cluster.simulation._agenda.clear()
    assert not dead.done
    started = cluster.simulation.now_ms
    successor = cluster.hold("next", count, occupied_timeout_ms=40_000, topic=topic)
    while not views(successor):
        cluster.simulation.run(for_ms=100)
        assert not successor.done
        assert cluster.simulation.now_ms - started < MASTER_LEASE_MS + 5_000
    assert cluster.members() == {f"next-{node_id}": node_id for node_id in range(count)}


def test_a_forgotten_node_registers_again() -> None:
    cluster = Cluster()
    cluster.hold("a", 2)
    cluster.simulation.run(for_ms=1_000)
    cluster.active.faults.force(Method.CONSUMER_HEARTBEAT_V2, 411)
    cluster.active.groups.clear()
    cluster.simulation.run(for_ms=2 * HEARTBEAT_INTERVAL_MS)
    assert cluster.members() == {"a-0": 0, "a-1": 1}


def test_heartbeat_with_new_brokers() -> None:
    """A node requests its view once if a heartbeat names another list of brokers."""
    cluster = Cluster()
    view_requests: list[int] = []
    simulation, answer = cluster.simulation, cluster.active._calls[Method.PARTITION_METADATA]

    def noting(*arguments: Any) -> Any:
        view_requests.append(round(simulation.now_ms / 1_000))
        return answer(*arguments)

    actor = cluster.hold("a", 1, masters=(FIRST,))
    simulation.run(for_ms=11_000)
    cluster.active._calls[Method.PARTITION_METADATA] = noting
    cluster.catalogue.put_broker(BrokerState(BrokerInfo(2, "10.0.0.9", 8124), 8082))
    started = round(simulation.now_ms / 1_000) - 11
    simulation.run(for_ms=30_000)  # with heartbeats at 13, 26 and 39 s
    assert [second - started for second in view_requests] == [13, 23, 33]
    assert len(views(actor)[1].partitions()) == 4
    assert len(views(actor)[2].partitions()) == 8


MASTER = "10.0.0.1:8715"
TOPICS = [f"topic{number}" for number in range(60)]


@pytest.fixture
def master() -> Master:
    catalogue = Catalogue(1, [TopicConfig(topic) for topic in TOPICS])
    catalogue.put_broker(BrokerState(BrokerInfo(1, "10.0.0.9", 8123), 8081))
    return Master(catalogue)


def visit(topic: str, groups: tuple[str, ...], timeout_ms: float, stay_ms: float = 20) -> Flow[str]:
    """As fetch_view does; returns the group that it was in."""
    masters, cache = MasterList([MASTER]), MetadataCache()
    nodes = [GroupNode(f"{group}_{topic}", group, (topic,), "host") for group in groups]
    node = yield from register_first(masters, nodes, cache, random.Random(topic), occupied_timeout_ms=timeout_ms)
    view = yield from query_view(masters, node, cache)
    assert {key.topic for key in view.partitions()} == {topic}
    yield Sleep(stay_ms)
    yield from close_nodes(masters, [node])
    return node.group


def test_occupied_until_timeout(master: Master) -> None:
    """A late client raises GroupConflict if the group is occupied until its timeout."""
    simulation = Simulation({MASTER: master}, 5)
    simulation.start(visit(TOPICS[0], ("readers",), 0, stay_ms=60_000))
    late = simulation.start(visit(TOPICS[1], ("readers",), 2_000), after_ms=100)
    simulation.run(for_ms=1_500)
    assert not late.done
    simulation.run(for_ms=5_000)
    assert late.done
    assert isinstance(late.error, GroupConflict)
