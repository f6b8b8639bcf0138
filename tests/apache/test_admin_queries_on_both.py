"""What there is, as the masters and brokers of both clusters tell it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from tests.apache.both import *  # noqa: F403
from tests.apache.both import Site
from tests.apache.java_client import JavaBalanceConsumer
from tests.waiting import wait_for
from tubeclient import (
    Admin,
    ConfigurationError,
    GroupMembership,
    OffsetLookup,
    PartitionKey,
    RemoteError,
    assign,
    fetch_view,
    reader_groups_of,
)

pytestmark = pytest.mark.apache

TOPICS = ["admin_shared", "admin_single"]
GROUPS = reader_groups_of("admin_tests")


def test_brokers_are_those_that_clients_are_told_of(site: Site, admin: Admin) -> None:
    brokers = admin.brokers()
    view = fetch_view(site.settings, TOPICS, GROUPS)
    assert [broker.info for broker in brokers] == sorted(view.brokers.values())
    for broker in brokers:
        assert (broker.manage_status, broker.run_status) == ("online", "running")
        assert (broker.accepts_publish, broker.accepts_subscribe, broker.takes_tls) == (True, True, False)
        assert broker.is_in_service
        assert broker.web_port not in (0, broker.info.port)


def test_topics_lie_as_clients_are_told(site: Site, admin: Admin) -> None:
    topics = admin.topics(TOPICS)
    view = fetch_view(site.settings, TOPICS, GROUPS)
    assert [topic.name for topic in topics] == TOPICS
    assert sorted(on.layout for topic in topics for on in topic.on_brokers) == sorted(view.layouts)
    assert [key for topic in topics for key in topic.partitions() if key.broker_id == 1] == [
        *(PartitionKey(1, "admin_shared", n) for n in range(3)),
        *(PartitionKey(1, "admin_single", n) for n in (0, 10_000)),
    ]
    for topic in topics:
        assert topic.max_message_bytes == 1 << 20
        for on in topic.on_brokers:
            assert (on.accepts_publish, on.accepts_subscribe, on.is_loaded, on.status) == (True, True, True, "ok")
    assert topics[0].on_brokers[0].status == "ok"


def test_bounds_are_those_of_the_offset_lookup(site: Site, admin: Admin, produce: Callable[[str, int], None]) -> None:
    produce("admin_shared", 3)
    view = fetch_view(site.settings, TOPICS, GROUPS)
    with closing(OffsetLookup(site.settings, GROUPS)) as lookup:
        expected = lookup.bounds(view)
    assert admin.store_bounds(TOPICS) == expected
    assert all(bounds.max_offset >= 9 * 28 for store, bounds in expected.items() if store.topic == "admin_shared")
    assert admin.store_bounds().items() >= expected.items()
    with pytest.raises(ConfigurationError, match="no_such_topic"):
        admin.store_bounds(["no_such_topic"])


def test_a_group_of_java_clients_shows_nodes_filters_and_partitions(
    admin: Admin, java_reader: Callable[[str], JavaBalanceConsumer]
) -> None:
    consumers = [
        java_reader("admin_java").start({"admin_single": [], "admin_shared": ["b", "a"]}, source_count=2, node_id=node)
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
    assert [(member.node_id, member.source_count, member.over_tls) for member in group.members] == [
        (0, 2, False),
        (1, 2, False),
    ]
    assert [member.client_id for member in group.members] == [consumers[1].consumer_id, consumers[0].consumer_id]
    assert [member.host for member in group.members] == ["127.0.0.1"] * 2
    assert [member.partitions for member in group.members] == [
        (),
        (PartitionKey(1, "admin_shared", 2), PartitionKey(2, "admin_single", 10_000)),
    ]
    [summary] = [summary for summary in admin.groups() if summary.name == "admin_java"]
    assert summary.topics == group.topics
    assert summary.members == 2


def test_our_own_group_shows_what_each_node_was_dealt(site: Site, admin: Admin) -> None:
    with closing(GroupMembership(site.settings, "admin_ours", ["admin_single"], 3)) as membership:
        plan = assign("modulo", membership.join().partitions(), 3)
        membership.report(dict(enumerate(plan)))
        wait_for(
            lambda: sum(len(member.partitions) for member in admin.group("admin_ours").members) == 4,
            "the master to show what the nodes were assigned",
        )
        group = admin.group("admin_ours")
        assert {member.node_id: list(member.partitions) for member in group.members} == dict(enumerate(plan))
        assert group.filters == {}
    assert "admin_ours" not in [summary.name for summary in admin.groups()]


def test_a_topic_is_created_with_the_token_only(site: Site, admin: Admin) -> None:
    with pytest.raises(ConfigurationError, match="modify_token"):
        Admin(site.settings).create_topic("admin_made")
    stranger = Admin(site.settings, modify_token="not-the-secret")
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
