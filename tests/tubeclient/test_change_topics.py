"""Nodes that change over to other topics: the group has one set of topics, so they wait for each other."""

from __future__ import annotations

import random
from typing import Any

import pytest

from embedded_tubemq.common.catalogue import BrokerState, Catalogue, TopicConfig
from embedded_tubemq.master.master import Master
from tests.tubeclient.simulation import Actor, Simulation, Weather
from tubeclient.errors import GroupConflict
from tubeclient.flows.hold_group import MembershipWishes, Waiting, hold_group
from tubeclient.flows.master import GroupNode, MasterList
from tubeclient.keys import BrokerInfo
from tubeclient.metadata import ClusterView
from tubeclient.wire.methods import Method

MASTER = "10.0.0.1:8715"
OLD, NEW, NEWER = ("a",), ("a", "b"), ("a", "b", "c")


class Nobody:
    consumers: tuple[str, ...] = ()


class Bench:
    """A master, and nodes of one group that began with the topics OLD."""

    def __init__(self, nodes: int) -> None:
        self.catalogue = Catalogue(1, [TopicConfig(name) for name in NEWER])
        self.catalogue.put_broker(BrokerState(BrokerInfo(1, "10.0.0.9", 8123), 8081))
        self.master = Master(self.catalogue)
        self.simulation = Simulation({MASTER: self.master}, 5)
        self.wishes = [MembershipWishes() for _ in range(nodes)]
        self.actors = [self.node(number, wishes) for number, wishes in enumerate(self.wishes)]
        self.run(60_000)

    def node(self, number: int, wishes: MembershipWishes) -> Actor:
        return self.hold([GroupNode(f"node-{number}", "etl", OLD, "host", len(self.wishes), number)], wishes)

    def hold(self, nodes: list[GroupNode], wishes: MembershipWishes) -> Actor:
        number = nodes[0].node_id
        flow = hold_group(
            MasterList([MASTER]),
            nodes,
            wishes,
            random.Random(number),
            patience_ms=60_000,
            refresh_interval_ms=10_000,
        )
        return self.simulation.start(flow)

    def run(self, for_ms: float) -> None:
        self.simulation.run(for_ms)

    def want(self, number: int, topics: tuple[str, ...]) -> None:
        self.wishes[number].topics = topics

    def alive(self) -> bool:
        return not any(actor.done for actor in self.actors)

    def seen(self, number: int) -> tuple[str, ...]:
        """The topics of the last layout that a node was shown."""
        views = [event for event in self.actors[number].emitted if isinstance(event, ClusterView)]
        return tuple(sorted({key.topic for key in views[-1].partitions()}))

    def members(self) -> tuple[tuple[str, ...], int]:
        """The group's topics at the master, and how many nodes are in."""
        group = self.master.groups["etl"]
        return tuple(sorted(group.first.topics)), len(group.consumers)


def test_the_group_reads_the_new_topics_once_the_last_node_wants_them() -> None:
    bench = Bench(3)
    for number in range(2):
        bench.want(number, NEW)
        bench.run(120_000)
        assert bench.members() == (OLD, 2 - number)
        assert bench.seen(number) == OLD
    bench.want(2, NEW)
    bench.run(20_000)
    assert bench.alive()
    assert bench.members() == (NEW, 3)
    assert [bench.seen(number) for number in range(3)] == [NEW] * 3
    waited = [sum(isinstance(event, Waiting) for event in actor.emitted) for actor in bench.actors]
    assert waited == [1, 1, 0]


@pytest.mark.parametrize(
    "weather", [Weather(lose_request=0.1, lose_answer=0.1, break_connection=0.1), Weather(come_late=0.1)]
)
def test_a_bad_network_does_not_keep_nodes_from_changing_over(weather: Weather) -> None:
    bench = Bench(3)
    bench.simulation.weather = weather
    for topics in (NEW, NEWER, OLD):
        for number in range(3):
            bench.want(number, topics)
        bench.run(300_000)
        assert bench.alive()
        assert bench.members() == (topics, 3)


def test_leaving_ends_the_wait_for_others() -> None:
    bench = Bench(2)
    bench.want(0, NEW)
    bench.run(30_000)
    assert not bench.actors[0].done
    bench.wishes[0].leave = True
    bench.run(5_000)
    assert bench.actors[0].done
    assert bench.members() == (OLD, 1)


def test_whoever_holds_the_whole_group_notices_that_it_was_taken_over_meanwhile() -> None:
    """A second query of the group, which came in while the first one was out for new topics."""
    bench = Bench(1)
    wishes = MembershipWishes()
    whole = bench.hold([GroupNode(f"whole-{number}", "wide", OLD, "host", 2, number) for number in range(2)], wishes)
    bench.run(5_000)
    bench.master.faults.force(Method.CONSUMER_REGISTER_V2, 431)  # it has to try a second time
    wishes.topics = NEW
    while len(bench.master.groups.get("wide", Nobody()).consumers):
        bench.run(10)
    thief = bench.hold(
        [GroupNode(f"thief-{number}", "wide", OLD, "host", 2, number) for number in range(2)], MembershipWishes()
    )
    bench.run(50_000)
    assert not whole.done
    bench.run(20_000)
    assert not thief.done
    error: Any = whole.error
    with pytest.raises(GroupConflict):
        raise error
