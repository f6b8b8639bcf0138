"""Apache's master dies or stands still, and a standby takes over: a group and a producer go on with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.apache.server import ApacheTubeMQ, TopicSpec
from tests.waiting import group_page, wait_for
from tubeclient import ClientSettings, GroupMembership, Producer, PullConsumer

pytestmark = [pytest.mark.apache, pytest.mark.timeout(400)]

TOPIC = "standbys"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheTubeMQ]:
    servers = ApacheTubeMQ(tmp_path_factory.mktemp("standbys"), brokers=1, heap_mb=256, standbys=2)
    servers.start([TopicSpec(TOPIC)])
    try:
        yield servers
    finally:
        servers.stop(clean=False)


@pytest.mark.parametrize("silent", [False, True], ids=["killed", "stands still"])
def test_a_group_and_a_producer_go_on_with_a_standby(cluster: ApacheTubeMQ, silent: bool) -> None:
    settings = ClientSettings(tuple(address for address, _ in cluster.masters))
    membership = GroupMembership(settings, f"etl_{silent}", [TOPIC], 1)
    try:
        with Producer(settings) as producer:
            producer.publish([TOPIC])
            assert len(membership.join().partitions()) == 1
            with cluster.without_active_master(silent=silent):
                membership.report({0: []})  # beats at once
                wait_for(lambda: nodes(cluster, f"etl_{silent}") == 1, "the node to be registered", seconds=60)
                producer.send(TOPIC, b"with a standby")
                assert len(membership.refreshed_view().partitions()) == 1
            membership.report({0: []})
            producer.send(TOPIC, b"after it")
    finally:
        membership.close()
    with PullConsumer(settings, f"reader_{silent}", [TOPIC], start_from="earliest") as consumer:
        bodies: list[bytes] = []
        while b"after it" not in bodies and (delivery := consumer.get(timeout_ms=30_000)) is not None:
            bodies += delivery.bodies
            consumer.confirm(delivery)
    assert {b"with a standby", b"after it"} <= set(bodies)


def nodes(cluster: ApacheTubeMQ, group: str) -> int:
    """How many nodes of a group the active master knows."""
    return len(group_page(int(cluster.admin.address.rpartition(":")[2]), group))
