"""Whoever finds a group's nodes held is told at once by whom, and for how long that may be a dead one's lease."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import NoReturn

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from tests.forking import MULTI_THREADED, in_child
from tests.tubeclient.occupying import occupy
from tubeclient import (
    Admin,
    ClientBalanceConsumer,
    ClientSettings,
    GroupMembership,
    NodeIdConflict,
    PartitionKey,
    PartitionOccupied,
    TubeError,
)
from tubeclient.flows import hold_group
from tubeclient.identity import host_name, maker_of, names_this_process, new_client_id
from tubeclient.wire.methods import Method

HERE = f"this process, {os.getpid()} on {host_name().replace('_', '.').replace('-', '.')}"


def test_who_holds_the_nodes_is_said_while_waiting_and_in_the_end(
    settings: ClientSettings, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hold_group, "_TELL_MS", 1)
    first = GroupMembership(settings, "etl", ["clicks"], 2)
    first.join()
    second = GroupMembership(settings, "etl", ["clicks"], 2)
    with pytest.raises(NodeIdConflict) as caught:
        second.join(patience_ms=2_500)
    assert f"The group's nodes are held by {HERE}, even after 2 s of waiting" in str(caught.value)
    assert "a client of this process until it is closed. Set how long to wait with patience_ms" in str(caught.value)
    told = [record.getMessage() for record in caplog.records if "Waiting up to" in record.getMessage()]
    assert len(told) > 1
    assert told[0] == (
        f"consumerGroup etl cannot be joined yet (NODE_OCCUPIED). The group's nodes are held by {HERE}. Waiting up to "
        "2 s more: a dead run holds them for 30 s after its last heartbeat"
    )
    second.close()
    first.close()


def from_elsewhere(
    settings: ClientSettings, monkeypatch: pytest.MonkeyPatch, source_count: int, node_ids: Sequence[int]
) -> GroupMembership:
    """A membership whose nodes have the client ids of as many processes of another machine, numbered from 1."""
    numbers = itertools.count(1)
    with monkeypatch.context() as patch:
        patch.setattr("tubeclient.group.new_client_id", lambda group, label: f"{group}_far-{next(numbers)}-1-1-{label}")
        return GroupMembership(settings, "etl", ["clicks"], source_count, node_ids=node_ids)


@pytest.mark.parametrize(("others", "more"), [(5, ""), (6, ", ...")])
def test_holders_are_others_and_five_are_named(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, monkeypatch: pytest.MonkeyPatch, others: int, more: str
) -> None:
    with (
        closing(from_elsewhere(settings, monkeypatch, 7, range(1, others + 1))) as first,
        closing(GroupMembership(settings, "etl", ["clicks"], 7)) as second,
    ):
        first.join()
        cluster.master_faults.force(Method.CONSUMER_CLOSE, 403)  # so the master keeps the node 0 that is given back
        with pytest.raises(NodeIdConflict) as caught:
            second.join()
    five = ", ".join(f"process {number} on far" for number in range(1, 6))
    assert f"The group's nodes are held by {five}{more}, even after 0 s of waiting" in str(caught.value)


def test_holders_that_are_gone_or_not_known_are_said_to_be(cluster: EmbeddedTubeMQ, settings: ClientSettings) -> None:
    for web_port, said in (
        (settings.master_web_port, "The group's nodes are held by nobody any more, even"),
        (1, "The holders of the nodes are unknown: no master answered at its web port: "),
    ):
        cluster.master_faults.force(Method.CONSUMER_REGISTER_V2, 430)
        with (
            closing(GroupMembership(replace(settings, master_web_port=web_port), "etl", ["clicks"], 1)) as membership,
            pytest.raises(NodeIdConflict) as caught,
        ):
            membership.join()
        assert said in str(caught.value)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_failure_while_the_holders_are_looked_for_leaves_nobody_waiting(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> NoReturn:
        raise ValueError("not foreseen")

    monkeypatch.setattr(Admin, "group", fail)
    cluster.master_faults.force(Method.CONSUMER_REGISTER_V2, 430)
    with (
        closing(GroupMembership(settings, "etl", ["clicks"], 1)) as membership,
        pytest.raises(TubeError, match=r"keeping consumerGroup etl failed: ValueError\('not foreseen'\)"),
    ):
        membership.join()


def test_a_run_whose_nodes_were_taken_over_did_not_wait_for_them(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()
    with (
        closing(GroupMembership(settings, "etl", ["clicks"], 1, on_end=ended.set)) as first,
        closing(from_elsewhere(settings, monkeypatch, 1, [0])) as second,
    ):
        first.join()
        cluster.restart_master()
        second.join()
        first.check_in()
        assert ended.wait(20)
        with pytest.raises(NodeIdConflict) as caught:
            first.view()
    assert "of waiting" not in str(caught.value)


def test_the_maker_of_a_client_id() -> None:
    assert maker_of(new_client_id("my_group", "x"), "my_group") == HERE
    assert maker_of("other_host-1-2", "my_group") == "other_host-1-2"
    assert maker_of("my_group_host-1-2-3-x-1", "my_group") == "process 1 on host"
    assert maker_of("my_group_strange", "my_group") == "my_group_strange"


@pytest.mark.filterwarnings(MULTI_THREADED)
def test_a_name_is_this_processes_if_it_made_it() -> None:
    mine = new_client_id("my_group", "x")
    assert names_this_process(f"[Duplicated Register] 1:my_group:t:0 has been registered by {mine}")
    assert not names_this_process(mine.replace(f"-{os.getpid()}-", f"-1{os.getpid()}-"))
    host, process, _, *rest = mine.split("-")
    assert not names_this_process("-".join([host, process, "1", *rest]))  # of an earlier process of this number

    def child() -> None:
        assert not names_this_process(mine)
        assert names_this_process(new_client_id("my_group", "x"))

    in_child(child)


def test_a_partition_that_this_process_holds_says_so_and_how_to_wait(settings: ClientSettings) -> None:
    """As a notebook's cell that is run again does while the consumer of its first run is still there."""
    key = PartitionKey(1, "single", 0)
    with (
        ClientBalanceConsumer(settings, "etl", ["single"]) as first,
        ClientBalanceConsumer(settings, "etl", ["single"]) as second,
    ):
        first.connect(key)
        with pytest.raises(
            PartitionOccupied, match=r"A client of this process .* holds it.* With a timeout_ms, connect waits for it"
        ):
            second.connect(key)


def test_a_partition_that_another_process_holds_is_not_said_to_be_this_ones(
    cluster: EmbeddedTubeMQ, settings: ClientSettings
) -> None:
    key = PartitionKey(1, "single", 0)
    with (
        occupy(cluster, settings, key, ["etl"]),
        ClientBalanceConsumer(settings, "etl", ["single"]) as consumer,
        pytest.raises(PartitionOccupied, match="connect waits for it") as caught,
    ):
        consumer.connect(key)
    assert "this process" not in str(caught.value)
