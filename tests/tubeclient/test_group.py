"""Membership over real sockets: what the master's own pages show, refusals in time, leaving."""

from __future__ import annotations

from contextlib import closing
from threading import Event, Thread

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from tests.tubeclient.interrupting import interrupted_at
from tubeclient import (
    ClientSettings,
    GroupMembership,
    NodeIdConflict,
    SourceCountConflict,
    TopicNotDeployed,
    TubeError,
    fetch_view,
    reader_groups_of,
)
from tubeclient.metadata import ClusterView
from tubeclient.net.http import query_master


def test_a_group_has_one_owner(settings: ClientSettings) -> None:
    holder = GroupMembership(settings, "etl", ["clicks"], 2)
    rivals = [GroupMembership(settings, "etl", ["clicks"], 2), GroupMembership(settings, "etl", ["clicks"], 3)]
    try:
        holder.join()
        with pytest.raises(NodeIdConflict, match=r"etl node 0 of 2.*430.*second query"):
            rivals[0].join()
        with pytest.raises(SourceCountConflict, match=r"etl node 0 of 3.*429.*sourceCount"):
            rivals[1].join(occupied_timeout_ms=100)
        assert holder.view().partitions()
    finally:
        for membership in (*rivals, holder):
            membership.close()


def test_view_of_missing_topic(settings: ClientSettings) -> None:
    """The error for a view without membership names the topic and no reader group."""
    with pytest.raises(TopicNotDeployed, match=r"^topics clikcs, single: the server ") as caught:
        fetch_view(settings, ["single", "clikcs"], ["etl-r0"])
    assert "etl" not in str(caught.value)


def test_occupied_nodes(settings: ClientSettings, caplog: pytest.LogCaptureFixture) -> None:
    """A run that finds its nodes occupied logs that it waits and raises NodeIdConflict at the end."""
    with (
        closing(GroupMembership(settings, "etl", ["clicks"], 2)) as first,
        closing(GroupMembership(settings, "etl", ["clicks"], 2)) as second,
    ):
        first.join()
        with pytest.raises(NodeIdConflict, match=r"or use another group\. Gave up after 1 s: a dead"):
            second.join(occupied_timeout_ms=1_200)
    assert "cannot be joined yet (NODE_OCCUPIED). Waiting up to 1 s more" in caplog.text


def test_nodes_taken_over(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    """The error does not mention a wait if another run took the nodes over."""
    ended = Event()

    def note(event: object) -> None:
        if isinstance(event, TubeError):
            ended.set()

    with (
        closing(GroupMembership(settings, "etl", ["clicks"], 1, on_event=note)) as first,
        closing(GroupMembership(settings, "etl", ["clicks"], 1)) as second,
    ):
        first.join()
        cluster.restart_master()
        second.join()
        first.report({0: []})  # with a heartbeat
        assert ended.wait(20)
        with pytest.raises(NodeIdConflict) as caught:
            first.view()
    assert "Gave up" not in str(caught.value)


def test_view_without_membership(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    """A view without membership leaves no group at the master."""
    groups = reader_groups_of("etl")
    assert len(fetch_view(settings, ["clicks"], groups).partitions()) == 8
    holder = GroupMembership(settings, groups[0], ["single"], 1)  # whose topics differ: the next group serves
    try:
        holder.join()
        assert len(fetch_view(settings, ["clicks", "single"], groups).partitions()) == 10
    finally:
        holder.close()
    answer = query_master(f"127.0.0.1:{cluster.master_web_port}", "admin_query_client_balance_group_set", 2_000)
    assert answer["data"] == [] or answer["count"] == 0


@pytest.mark.parametrize("name", ["request_view", "refreshed_view"])
def test_interrupted_view_request(settings: ClientSettings, name: str) -> None:
    """The membership goes on after a view request is interrupted at any line."""
    membership = GroupMembership(settings, "etl", ["clicks"], 1)
    try:
        membership.join()
        line, seen = 0, list[ClusterView]()
        while interrupted_at(line, getattr(membership, name)):
            line += 1
            other = Thread(target=lambda: seen.append(membership.refreshed_view(20_000)), daemon=True)
            other.start()
            other.join(20)
            assert len(seen) == line
        assert line > 5
    finally:
        membership.close()
