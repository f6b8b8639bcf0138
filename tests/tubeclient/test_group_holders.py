"""Whoever finds a group's nodes held is told at once by whom, and for how long that may be a dead one's lease."""

from __future__ import annotations

import os

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from tests.forking import MULTI_THREADED, in_child
from tests.tubeclient.occupying import occupy
from tubeclient import (
    ClientBalanceConsumer,
    ClientSettings,
    GroupMembership,
    NodeIdConflict,
    PartitionKey,
    PartitionOccupied,
)
from tubeclient.flows import hold_group
from tubeclient.identity import host_name, maker_of, names_this_process, new_client_id

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
    assert f"The group's nodes are held by {HERE}, and did so still after 2 s of waiting" in str(caught.value)
    assert "a client of this process until it is closed; patience_ms, in Spark groupJoinTimeout," in str(caught.value)
    told = [record.getMessage() for record in caplog.records if "Waiting up to" in record.getMessage()]
    assert len(told) > 1
    assert f"held by {HERE}. Waiting up to 2 s more: a run that died holds them for 30 s" in told[0]
    second.close()
    first.close()


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
            PartitionOccupied, match=r"held by this process, .* With a timeout_ms, connect waits for it"
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
