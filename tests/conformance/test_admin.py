"""What Admin is told by masters and brokers, and what it changes there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from tests.apache.java_client import JavaBalanceConsumer
from tests.conformance.clients import take
from tests.conformance.cluster import Cluster
from tests.conformance.conftest import MakeConsumer
from tests.waiting import wait_for
from tubeclient import (
    Admin,
    ClientSettings,
    ConfigurationError,
    GroupOffsets,
    OffsetLookup,
    PartitionKey,
    RemoteError,
    UnknownGroup,
    fetch_view,
    reader_groups_of,
)

pytestmark = pytest.mark.apache

TOPICS = ["admin_shared", "admin_single"]
GROUPS = reader_groups_of("admin_tests")
ROW = 28
KEYS = [PartitionKey(broker_id, "admin_single", n) for broker_id in (1, 2) for n in (0, 10_000)]
FIRST, SECOND, OTHER_BROKER = KEYS[0], KEYS[1], KEYS[2]


@pytest.fixture
def admin(tube: Cluster) -> Admin:
    return Admin(tube.settings, modify_token=tube.modify_token)


def offsets_of(admin: Admin, group: str, *, positions: int) -> GroupOffsets:
    """The group's offsets, as soon as its brokers tell that many positions."""
    found: list[GroupOffsets] = []

    def told() -> bool:
        try:
            found.append(admin.group_offsets(group))
        except UnknownGroup:
            return False
        return len(found[-1].positions) == positions

    wait_for(told, f"{positions} positions of {group}")
    return found[-1]


def test_brokers_and_topics_match_the_view(settings: ClientSettings, admin: Admin) -> None:
    """Admin lists the brokers and topics that a master shows its clients."""
    brokers, topics = admin.brokers(), admin.topics(TOPICS)
    view = fetch_view(settings, TOPICS, GROUPS)
    assert [broker.info for broker in brokers] == sorted(view.brokers.values())
    for broker in brokers:
        assert (broker.manage_status, broker.run_status) == ("online", "running")
        assert broker.is_in_service
    assert sorted(on.layout for topic in topics for on in topic.on_brokers) == sorted(view.layouts)
    assert sorted(key for topic in topics for key in topic.partitions()) == sorted(view.partitions())
    for topic in topics:
        assert topic.max_message_bytes == 1 << 20
        for on in topic.on_brokers:
            assert (on.accepts_publish, on.accepts_subscribe, on.is_loaded) == (True, True, True)
            assert on.status == "ok"


def test_bounds_are_those_of_the_offset_lookup(tube: Cluster, settings: ClientSettings, admin: Admin) -> None:
    tube.put(FIRST, [b"body"] * 3)
    with closing(OffsetLookup(settings, GROUPS)) as lookup:
        expected = lookup.bounds(fetch_view(settings, TOPICS, GROUPS))
    assert admin.store_bounds(TOPICS) == expected
    assert expected[FIRST.store].max_offset >= 3 * ROW
    with pytest.raises(ConfigurationError, match="no_such_topic"):
        admin.store_bounds(["no_such_topic"])


def test_group_of_java_clients(admin: Admin, java_consumer: Callable[..., JavaBalanceConsumer]) -> None:
    """Admin shows the nodes, filters, and partitions of a group of Java clients."""
    consumers = [
        java_consumer("admin_java", heartbeat_ms=500).start(
            {"admin_single": [], "admin_shared": ["b", "a"]}, source_count=2, node_id=node
        )
        for node in (1, 0)
    ]
    consumers[0].await_partitions(10)
    consumers[0].connect("2:admin_single:10000")
    consumers[0].connect("1:admin_shared:2")
    wait_for(lambda: sum(len(member.partitions) for member in admin.group("admin_java").members) == 2, "Java's report")
    group = admin.group("admin_java")
    assert group.kind == "client-rebalance"
    assert group.topics == {"admin_single", "admin_shared"}
    assert {topic: tags for topic, tags in group.filters.items() if tags} == {"admin_shared": {"a", "b"}}
    held = (PartitionKey(1, "admin_shared", 2), PartitionKey(2, "admin_single", 10_000))
    assert [
        (one.node_id, one.source_count, one.over_tls, one.client_id, one.host, one.partitions) for one in group.members
    ] == [
        (0, 2, False, consumers[1].consumer_id, "127.0.0.1", ()),
        (1, 2, False, consumers[0].consumer_id, "127.0.0.1", held),
    ]
    [summary] = [summary for summary in admin.groups() if summary.name == "admin_java"]
    assert (summary.topics, summary.members) == (group.topics, 2)


def test_a_topic_is_created_with_the_token_only(settings: ClientSettings, admin: Admin) -> None:
    stranger = Admin(settings, modify_token="not-the-secret")
    with pytest.raises(RemoteError, match="confModAuthToken") as caught:
        stranger.create_topic("admin_made")
    assert "not-the-secret" not in f"{caught.value!r} {stranger!r}"
    assert "admin_made" not in admin.topic_names()

    admin.create_topic("admin_made", stores=2, partitions_per_store=3)
    [topic] = admin.topics(["admin_made"])
    assert [(on.broker.broker_id, on.stores, on.partitions_per_store) for on in topic.on_brokers] == [
        (1, 2, 3),
        (2, 2, 3),
    ]
    with pytest.raises(RemoteError, match=r"broker 1: .*[Ee]xist.*broker 2: .*[Ee]xist"):
        admin.create_topic("admin_made")


def test_a_consumer_starts_where_its_group_was_set(tube: Cluster, admin: Admin, consumer_of: MakeConsumer) -> None:
    end = tube.put(FIRST, [b"body"] * 4)[-1] + ROW
    tube.put(OTHER_BROKER, [b"body"])
    admin.set_offsets("admin_set", {FIRST: end - 2 * ROW, OTHER_BROKER: ROW})
    offsets = offsets_of(admin, "admin_set", positions=2)
    assert offsets.committed == {FIRST: end - 2 * ROW, OTHER_BROKER: ROW}
    consumer = consumer_of("admin_set", ["admin_single"])
    consumer.connect(FIRST)
    pack = take(consumer)
    assert (pack.start, len(pack)) == (end - 2 * ROW, 2)


def test_committed_in_flight_end_and_rows_behind(tube: Cluster, admin: Admin, consumer_of: MakeConsumer) -> None:
    end = tube.put(FIRST, [b"body"] * 5)[-1] + ROW
    second_end = tube.put(SECOND, [b"body"])[-1] + ROW
    admin.set_offsets("admin_lag", {FIRST: end - 5 * ROW, SECOND: second_end})
    consumer = consumer_of("admin_lag", ["admin_single"], prefetch=0)
    consumer.connect(FIRST)
    pack = take(consumer)
    first, second = offsets_of(admin, "admin_lag", positions=2).positions
    assert (first.partition, first.committed, first.in_flight, first.end) == (FIRST, end - 5 * ROW, 5 * ROW, end)
    assert (first.rows_behind, second.rows_behind) == (5, 0)
    consumer.confirm(pack)
    assert admin.group_offsets("admin_lag", ["admin_single"]).rows_behind == 0
