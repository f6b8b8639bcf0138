"""Many who look at the layout of other topics at once, under the same few groups."""

from __future__ import annotations

import random

import pytest

from embedded_tubemq.common.catalogue import BrokerState, Catalogue, TopicConfig
from embedded_tubemq.master.master import Master
from tests.tubeclient.simulation import Simulation
from tubeclient.errors import GroupConflict
from tubeclient.flows.effects import Flow, Sleep
from tubeclient.flows.hold_group import enter_any
from tubeclient.flows.master import GroupNode, MasterList, MetadataCache, close_nodes, query_view
from tubeclient.keys import BrokerInfo
from tubeclient.names import reader_groups_of

MASTER = "10.0.0.1:8715"
TOPICS = [f"topic{number}" for number in range(60)]


@pytest.fixture
def master() -> Master:
    catalogue = Catalogue(1, [TopicConfig(topic) for topic in TOPICS])
    catalogue.put_broker(BrokerState(BrokerInfo(1, "10.0.0.9", 8123), 8081))
    return Master(catalogue)


def visit(topic: str, groups: tuple[str, ...], patience_ms: float, stay_ms: float = 20) -> Flow[str]:
    """As fetch_view does; returns the group that it was in."""
    masters, cache = MasterList([MASTER]), MetadataCache()
    nodes = [GroupNode(f"{group}_{topic}", group, (topic,), "host") for group in groups]
    node = yield from enter_any(masters, nodes, cache, random.Random(topic), patience_ms=patience_ms)
    view = yield from query_view(masters, node, cache)
    assert {key.topic for key in view.partitions()} == {topic}
    yield Sleep(stay_ms)
    yield from close_nodes(masters, [node])
    return node.group


def test_more_visitors_than_groups_wait_for_each_other(master: Master) -> None:
    simulation = Simulation({MASTER: master}, 5)
    actors = [simulation.start(visit(topic, reader_groups_of("etl"), 60_000)) for topic in TOPICS]
    simulation.run(for_ms=60_000)
    assert all(actor.done and actor.error is None for actor in actors)
    assert {actor.result for actor in actors} == set(reader_groups_of("etl"))
    assert all(not group.consumers for group in master.groups.values())


def test_whoever_stays_is_a_conflict_when_patience_ends(master: Master) -> None:
    simulation = Simulation({MASTER: master}, 5)
    simulation.start(visit(TOPICS[0], ("readers",), 0, stay_ms=60_000))
    late = simulation.start(visit(TOPICS[1], ("readers",), 2_000), after_ms=100)
    simulation.run(for_ms=1_500)
    assert not late.done
    simulation.run(for_ms=5_000)
    assert late.done
    assert isinstance(late.error, GroupConflict)
