"""What makes a consumer look again at what is its, and the cluster at where things are: each reason by itself.

Everything that comes by itself is switched off, so that nothing but the reason under test can bring what is waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.common.catalogue import TopicConfig
from embedded_tubemq.storage.store import NewMessage
from tests.waiting import wait_for
from tubeclient import ClientBalanceConsumer, ClientSettings, PartitionKey, PullConsumer, assign
from tubeclient.wire.methods import Method

NEVER_MS = 3_600_000
KEY = PartitionKey(1, "clicks", 0)

Start = Callable[..., Any]
Change = Callable[[EmbeddedTubeMQ], object]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EmbeddedTubeMQ]:
    with EmbeddedTubeMQ(
        tmp_path / "tubemq", [TopicConfig("clicks", stores=2, partitions=2)], brokers=2, lease_ms=NEVER_MS
    ) as running:
        yield running


@pytest.fixture
def start(settings: ClientSettings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """`start()`: a running consumer of group etl that nothing comes to by itself, closed after the test."""
    monkeypatch.setattr("tubeclient.flows.hold_group.HEARTBEAT_INTERVAL_MS", NEVER_MS)
    monkeypatch.setattr("tubeclient.flows.keep_leases.LEASE_BEAT_MS", NEVER_MS)
    with ExitStack() as stack:

        def make(
            kind: type[ClientBalanceConsumer] = PullConsumer, node_id: int = 0, count: int = 1, **options: Any
        ) -> ClientBalanceConsumer:
            options = {"metadata_interval_ms": NEVER_MS, "prefetch": 0, **options}
            if issubclass(kind, PullConsumer):
                options = {"balance_interval_ms": NEVER_MS, **options}
            return stack.enter_context(
                kind(settings, "etl", ["clicks"], source_count=count, node_id=node_id, **options)
            )

        yield make


def has(consumer: ClientBalanceConsumer, count: int) -> Callable[[], bool]:
    return lambda: len(consumer.registered()) == count


def close_topic(cluster: EmbeddedTubeMQ) -> None:
    cluster.change_topic(TopicConfig("clicks", 2, 2, accept_subscribe=False))


# Its own reasons


def test_the_start(start: Start) -> None:
    wait_for(has(start(), 8), "all partitions")


class Wish:
    """Assigns one consumer what is wished for."""

    def __init__(self) -> None:
        self.wanted: list[PartitionKey] = []
        self.rounds = 0

    def __call__(self, *_: object) -> list[list[PartitionKey]]:
        self.rounds += 1
        return [list(self.wanted)]

    def change(self) -> None:
        """Wish for something, once the start and the first view have been dealt with."""
        wait_for(lambda: self.rounds >= 2, "the first rounds")
        self.wanted.append(KEY)


@pytest.fixture
def wish(monkeypatch: pytest.MonkeyPatch) -> Wish:
    wish = Wish()
    monkeypatch.setattr("tubeclient.consumers.pull_consumer.assign", wish)
    return wish


def test_the_timer(start: Start, wish: Wish) -> None:
    consumer = start(balance_interval_ms=100)
    wish.change()
    wait_for(lambda: consumer.registered() == [KEY], "what is wished for")


def test_the_application_knows_better(start: Start, wish: Wish) -> None:
    consumer = start()
    wish.change()
    consumer.rebalance()
    wait_for(lambda: consumer.registered() == [KEY], "what is wished for")


# A broker's word


@pytest.mark.parametrize("code", [403, 410, 500, 503])
def test_a_partition_that_is_refused_for_now_is_soon_asked_for_again(
    cluster: EmbeddedTubeMQ, start: Start, code: int
) -> None:
    # Three rounds of four partitions, as a second one follows the first in any case. A partition that is refused is
    # given back too, unless another client has it.
    cluster.broker_faults(1).force(Method.PARTITION_REGISTER, code, times=3 * 4 * (1 if code == 410 else 2))
    wait_for(has(start(), 8), "all partitions")


def test_a_fetch_that_finds_the_partition_closed(cluster: EmbeddedTubeMQ, start: Start) -> None:
    consumer = start()
    wait_for(has(consumer, 8), "all partitions")
    close_topic(cluster)
    cluster.broker_faults(1).force(Method.GET_MESSAGES, 403)
    wait_for(lambda: consumer.get(timeout_ms=50) or has(consumer, 0)(), "all partitions to be given back")


# The master's word

CHANGES: dict[str, tuple[Change, int]] = {
    "topic-grows": (lambda cluster: cluster.grow_topic("clicks", stores=3), 12),
    "topic-closes": (close_topic, 0),
    "broker-comes": (lambda cluster: cluster.add_broker(), 12),
    "broker-goes": (lambda cluster: cluster.remove_broker(1), 4),
    "broker-stops": (lambda cluster: cluster.stop_broker(1), 4),
}


def both_follow(cluster: EmbeddedTubeMQ, nodes: list[PullConsumer], change: Change, partitions: int) -> None:
    """See that the nodes have their shares of what is there before and after a change; without looking at the layout,
    which would show it to them.
    """
    shares: list[list[PartitionKey]] = []

    def have_their_shares() -> bool:
        views = [node.partitions() for node in nodes]
        shares[:] = assign("modulo", views[0], len(nodes))
        return views[0] == views[1] and all(
            node.registered() == [key for key in share if views[0][key]]
            for node, share in zip(nodes, shares, strict=True)
        )

    wait_for(have_their_shares, "all partitions")
    assert sum(map(len, shares)) == 8
    change(cluster)
    wait_for(
        lambda: sum(len(node.registered()) for node in nodes) == partitions and have_their_shares(),
        f"{partitions} partitions to be shared anew",
    )


@pytest.mark.parametrize(("change", "partitions"), CHANGES.values(), ids=CHANGES)
def test_a_change_that_a_look_shows(cluster: EmbeddedTubeMQ, start: Start, change: Change, partitions: int) -> None:
    both_follow(cluster, [start(node_id=n, count=2, metadata_interval_ms=100) for n in (0, 1)], change, partitions)


@pytest.mark.parametrize(("change", "partitions"), CHANGES.values(), ids=CHANGES)
def test_a_change_that_the_application_knows_of(
    cluster: EmbeddedTubeMQ, start: Start, change: Change, partitions: int
) -> None:
    nodes = [start(node_id=n, count=2) for n in (0, 1)]

    def change_and_tell(cluster: EmbeddedTubeMQ) -> None:
        change(cluster)
        for node in nodes:
            node.rebalance()

    both_follow(cluster, nodes, change_and_tell, partitions)


def test_a_broker_that_moved_to_another_address(cluster: EmbeddedTubeMQ, start: Start) -> None:
    consumer = start(ClientBalanceConsumer, metadata_interval_ms=100)
    consumer.connect(KEY)
    former = cluster.broker_addresses
    cluster.stop_broker(KEY.broker_id, clean=False)
    cluster._brokers[KEY.broker_id].port = 0  # another one, of the system's choice
    cluster.start_broker(KEY.broker_id)
    assert cluster.broker_addresses != former
    cluster.load(KEY.topic, [NewMessage(KEY.partition_id, b"x")], broker_id=KEY.broker_id)
    wait_for(lambda: consumer.get(timeout_ms=100), "a message from there")


def test_connecting_what_was_closed_when_the_layout_was_shown(cluster: EmbeddedTubeMQ, start: Start) -> None:
    consumer = start(ClientBalanceConsumer)
    close_topic(cluster)
    assert not any(consumer.partitions(refresh=True).values())
    cluster.change_topic(TopicConfig("clicks", 2, 2))
    consumer.connect(KEY)
    assert consumer.registered() == [KEY]


@pytest.mark.parametrize("name", ["broker-comes", "broker-goes", "broker-stops"])
def test_a_change_that_a_heartbeat_tells(
    cluster: EmbeddedTubeMQ, start: Start, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Its answer has the version of the list of brokers, not that of topics."""
    monkeypatch.setattr("tubeclient.flows.hold_group.HEARTBEAT_INTERVAL_MS", 100)
    both_follow(cluster, [start(node_id=n, count=2) for n in (0, 1)], *CHANGES[name])
