"""All nodes see the same sorted list of partitions, and one that cannot be read for now keeps its place in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.common.catalogue import TopicConfig
from tests.tubeclient.test_pull_following import Moves
from tests.waiting import wait_for
from tubeclient import ClientSettings, PartitionKey, PullConsumer, assign

Start = Callable[..., PullConsumer]
TOPICS = ["clicks", "single"]


@pytest.fixture
def start(settings: ClientSettings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """`start()`: a running consumer of group etl, closed after the test."""
    monkeypatch.setattr("tubeclient.flows.hold_group.HEARTBEAT_INTERVAL_MS", 500)
    with ExitStack() as stack:

        def make(**options: Any) -> PullConsumer:
            options = {"metadata_interval_ms": 100, **options}
            return stack.enter_context(PullConsumer(settings, "etl", TOPICS, **options))

        yield make


# The order in which a master lists things

# A place that is kept


def close_clicks(cluster: EmbeddedTubeMQ) -> None:
    cluster.change_topic(TopicConfig("clicks", 2, 2, accept_subscribe=False))


def open_clicks(cluster: EmbeddedTubeMQ) -> None:
    cluster.change_topic(TopicConfig("clicks", 2, 2))


Change = Callable[[EmbeddedTubeMQ], None]
AWAY: dict[str, tuple[Change, Change, Callable[[PartitionKey], bool]]] = {
    "topic": (close_clicks, open_clicks, lambda key: key.topic == "clicks"),
    "broker": (
        lambda cluster: cluster.stop_broker(1),
        lambda cluster: cluster.start_broker(1),
        lambda key: key.broker_id == 1,
    ),
}


@pytest.mark.parametrize(("leave", "come_back", "is_away"), AWAY.values(), ids=AWAY)
@pytest.mark.parametrize("strategy", ["modulo", "averagely"])
@pytest.mark.parametrize("membership", ["fixed", "dynamic"])
def test_a_partition_that_takes_no_readers_for_a_while_keeps_its_place(
    cluster: EmbeddedTubeMQ,
    start: Start,
    membership: str,
    strategy: str,
    leave: Change,
    come_back: Change,
    is_away: Callable[[PartitionKey], bool],
) -> None:
    moves = Moves()
    options: dict[str, Any] = {"strategy": strategy, "balance_interval_ms": 200, **moves.callbacks}
    if membership == "dynamic":
        nodes = [start(membership="dynamic", **options) for _ in range(3)]
        nodes.sort(key=lambda node: node.consumer_id)
    else:
        nodes = [start(source_count=3, node_id=number, **options) for number in range(3)]
    shares = assign(strategy, nodes[0].partitions(), 3)

    def have(wanted: list[list[PartitionKey]]) -> Callable[[], bool]:
        return lambda: [node.registered() for node in nodes] == wanted

    wait_for(have(shares), "all partitions")
    moves.clear()
    leave(cluster)
    wait_for(have([[key for key in share if not is_away(key)] for share in shares]), "some to be given back")
    closed = {key: not is_away(key) for share in shares for key in share}
    wait_for(lambda: all(node.partitions() == closed for node in nodes), "all to know")
    come_back(cluster)
    wait_for(have(shares), "all partitions again")
    assert all(map(is_away, (*moves.revoked, *moves.assigned)))
