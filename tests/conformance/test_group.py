"""The nodes of a group, as masters keep them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from tests.apache.java_client import JavaBalanceConsumer
from tests.conformance.cluster import Cluster
from tests.group_page import group_page
from tests.waiting import wait_for
from tubeclient import (
    ClientSettings,
    GroupMembership,
    NodeIdConflict,
    SourceCountConflict,
    TopicNotDeployed,
    assign,
)

pytestmark = pytest.mark.apache


def test_the_master_shows_the_nodes_and_refuses_others(
    tube: Cluster, settings: ClientSettings, java_consumer: Callable[..., JavaBalanceConsumer]
) -> None:
    membership = GroupMembership(settings, "members", ["members"], 3)
    rivals = [GroupMembership(settings, "members", ["members"], count) for count in (3, 2)]

    def shown() -> dict[int, int]:
        return {node_id: len(keys) for node_id, keys in group_page(tube.master_web_port, "members").items()}

    try:
        plan = assign("modulo", membership.join().partitions(), 3)
        assert sum(map(len, plan)) == 8
        membership.report(dict(enumerate(plan)))
        wait_for(lambda: sum(shown().values()) == 8, "the master to show what the nodes were assigned")
        assert shown() == {node_id: len(keys) for node_id, keys in enumerate(plan)}
        with pytest.raises(NodeIdConflict, match=r"members node 0 of 3.*430"):
            rivals[0].join()
        with pytest.raises(SourceCountConflict, match=r"members node 0 of 2.*429"):
            rivals[1].join()
    finally:
        for member in (*rivals, membership):
            member.close()
    java_consumer("members").start({"members": []}, source_count=2, node_id=1)  # free again at once


def test_an_unknown_topic_is_named(settings: ClientSettings) -> None:
    membership = GroupMembership(settings, "members_of_nothing", ["no_such_topic"], 1)
    with closing(membership), pytest.raises(TopicNotDeployed, match=r"no_such_topic.*431"):
        membership.join()
