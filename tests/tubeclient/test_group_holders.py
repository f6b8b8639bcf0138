"""Whoever finds a group's nodes held is told at once by whom, and for how long that may be a dead one's lease."""

from __future__ import annotations

import os

import pytest

from tubeclient import ClientSettings, GroupMembership, NodeIdConflict
from tubeclient.flows import hold_group
from tubeclient.identity import host_name, maker_of, new_client_id

HERE = f"process {os.getpid()} on {host_name().replace('_', '.').replace('-', '.')}"


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
    told = [record.getMessage() for record in caplog.records if "Waiting up to" in record.getMessage()]
    assert len(told) > 1
    assert f"held by {HERE}. Waiting up to 2 s more: a run that died holds them for 30 s" in told[0]
    second.close()
    first.close()


def test_the_maker_of_a_client_id() -> None:
    assert maker_of(new_client_id("my_group", "x"), "my_group") == HERE
    assert maker_of("other_host-1-2", "my_group") == "other_host-1-2"
    assert maker_of("my_group_strange", "my_group") == "my_group_strange"
