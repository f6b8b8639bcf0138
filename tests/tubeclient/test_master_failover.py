"""Several masters in the list, some of them no good: every call goes on with the next one, and remembers it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from tests.front_door import FrontDoor, Manner
from tests.waiting import group_page, wait_for
from tubeclient import ClientSettings, GroupMembership, PartitionKey, Producer

BAD = [manner for manner in Manner if manner is not Manner.GOOD]
HELD = PartitionKey(1, "clicks", 0)


@pytest.fixture
def first(cluster: EmbeddedTubeMQ) -> Iterator[FrontDoor]:
    with FrontDoor(cluster.master_address) as door:
        yield door


@pytest.fixture
def second(cluster: EmbeddedTubeMQ) -> Iterator[FrontDoor]:
    with FrontDoor(cluster.master_address) as door:
        yield door


@pytest.fixture
def two_masters(settings: ClientSettings, first: FrontDoor, second: FrontDoor) -> ClientSettings:
    return replace(settings, master_servers=(first.address, second.address), rpc_timeout_ms=2_000)


@pytest.fixture(autouse=True)
def quick_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer's heartbeats ten times a second instead of every 13 s; a membership beats when it is told to."""
    monkeypatch.setattr("tubeclient.producing.producer.HEARTBEAT_INTERVAL_MS", 100)


def told(cluster: EmbeddedTubeMQ, membership: GroupMembership, held: list[PartitionKey]) -> None:
    """Let a membership report, and wait for the master to show it."""
    membership.report({0: held})
    wanted = {0: [str(key) for key in held]}
    wait_for(lambda: group_page(cluster.master_web_port, "etl") == wanted, "the report to arrive")


def write_to_new_store(cluster: EmbeddedTubeMQ, producer: Producer) -> None:
    """Let the topic grow, and wait until the producer has learnt of it by a heartbeat."""
    cluster.grow_topic("clicks", stores=3)
    wait_for(lambda: producer.send("clicks", b"x").partition.partition_id >= 20_000, "a message in the new store")


@pytest.mark.parametrize("manner", BAD)
def test_a_membership_goes_on_with_the_next_master(
    cluster: EmbeddedTubeMQ, two_masters: ClientSettings, first: FrontDoor, second: FrontDoor, manner: Manner
) -> None:
    membership = GroupMembership(two_masters, "etl", ["clicks"], 1)
    try:
        membership.join()
        assert second.asked == 0
        first.become(manner)
        told(cluster, membership, [HELD])
        cluster.grow_topic("clicks", stores=3)
        assert len(membership.refreshed_view().partitions()) == 12
        assert membership._masters.addresses == (second.address, first.address)
    finally:
        membership.close()


@pytest.mark.parametrize("manner", BAD)
def test_a_producer_goes_on_with_the_next_master(
    cluster: EmbeddedTubeMQ, two_masters: ClientSettings, first: FrontDoor, second: FrontDoor, manner: Manner
) -> None:
    with Producer(two_masters) as producer:
        producer.publish(["clicks"])
        assert second.asked == 0
        first.become(manner)
        write_to_new_store(cluster, producer)
        assert second.asked > 0


def test_restarted_master(cluster: EmbeddedTubeMQ, two_masters: ClientSettings, first: FrontDoor) -> None:
    """A master that takes over learns of all members and producers."""
    membership = GroupMembership(two_masters, "etl", ["clicks"], 1)
    try:
        with Producer(two_masters) as producer:
            membership.join()
            producer.publish(["clicks"])
            first.become(Manner.DEAD)
            cluster.restart_master()
            membership.report({0: []})  # beats at once
            wait_for(lambda: group_page(cluster.master_web_port, "etl") == {0: []}, "the node to be registered again")
            told(cluster, membership, [HELD])
            write_to_new_store(cluster, producer)
            assert len(membership.refreshed_view().partitions()) == 12
    finally:
        membership.close()
