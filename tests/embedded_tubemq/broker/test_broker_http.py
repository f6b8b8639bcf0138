"""The brokers' HTTP interface: ends, positions and what changes them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from embedded_tubemq import EmbeddedTubeMQ, NewMessage
from tests.embedded_tubemq.raw_client import RawClient, http_get
from tubeclient.wire.methods import Method

READER = {"clientId": "c", "groupName": "g", "topicName": "flights", "partitionId": 0}


@pytest.fixture
def used(tube: EmbeddedTubeMQ, to_broker: RawClient) -> EmbeddedTubeMQ:
    """Six messages in store 0 of broker 1; group g committed two entries of partition 0 and has four in flight."""
    tube.load("flights", (NewMessage(n % 2, b"%d" % n) for n in range(6)))
    to_broker.call(Method.PARTITION_REGISTER, **READER, opType=31, readStatus=0, currOffset=56)
    to_broker.call(Method.GET_MESSAGES, **READER)
    return tube


def ask(tube: EmbeddedTubeMQ, method: str, **parameters: Any) -> Any:
    return http_get(tube.broker_web_ports[1], method, path="broker.htm", **parameters)


def positions(tube: EmbeddedTubeMQ, group: str = "g") -> dict[int, int]:
    (row,) = ask(tube, "admin_query_offset", groupName=group)["dataSet"]
    (topic,) = row["subInfo"]
    return {item["partitionId"]: item["curOffset"] for item in topic["offsets"]}


def test_ends_of_all_partitions_of_stores_that_were_used(used: EmbeddedTubeMQ) -> None:
    answer = ask(used, "admin_query_pubinfo")
    (topic,) = answer["dataSet"]
    assert (answer["result"], answer["dataCount"], topic["topicName"], topic["itemCount"]) == (True, 1, "flights", 2)
    data_max = topic["offsetInfo"][0]["dataMax"]
    ends = {"offsetMin": 0, "offsetMax": 168, "dataMin": 0, "dataMax": data_max}
    assert topic["offsetInfo"] == [{"partitionId": n, **ends} for n in range(2)]
    assert data_max > 0
    assert ask(used, "admin_query_pubinfo", topicName="nowhere")["dataSet"] == []
    used.expire("flights", 84)
    (topic,) = ask(used, "admin_query_pubinfo", topic="flights")["dataSet"]
    assert topic["offsetInfo"][0]["offsetMin"] == 84
    used.expire_data("flights", 112)
    (topic,) = ask(used, "admin_query_pubinfo", topic="flights")["dataSet"]
    assert topic["offsetInfo"][0] == {
        "partitionId": 0,
        "offsetMin": 84,
        "offsetMax": 168,
        "dataMin": data_max * 112 // 168,
        "dataMax": data_max,
    }


def test_positions_of_groups(used: EmbeddedTubeMQ) -> None:
    answer = ask(used, "admin_query_offset")
    (row,) = answer["dataSet"]
    assert (answer["totalCnt"], row["groupName"], row["topicCount"]) == (1, "g", 1)
    (topic,) = row["subInfo"]
    assert (topic["topicName"], topic["partCount"]) == ("flights", 4)
    known, unknown, unused, _ = topic["offsets"]
    assert (known["curOffset"], known["flightOffset"], known["offsetLag"], known["dataLag"]) == (56, 112, 112, 0)
    assert (unknown["curOffset"], unknown["flightOffset"], unknown["offsetMax"]) == (-2, -2, 168)
    assert (unused["partitionId"], unused["offsetMax"], unused["offsetLag"]) == (10_000, -2, -2)
    assert ask(used, "admin_query_offset", groupName="nobody")["dataSet"] == []


def test_positions_are_set_by_hand_clamped_and_only_on_this_broker(used: EmbeddedTubeMQ, to_broker: RawClient) -> None:
    wanted = json.dumps({"1:flights:0": 85, "1:flights:1": 9999, "2:flights:0": 28, "1:nowhere:0": 28})
    fields = {"groupName": "g,other", "manualSet": "true", "modifyUser": "me", "offsetJsonInfo": wanted}
    assert ask(used, "admin_set_offset", **fields, post=True)["errCode"] == 0
    assert positions(used) == {0: 84, 1: 168, 10_000: -2, 10_001: -2}
    assert positions(used, "other") == positions(used)
    assert to_broker.call(Method.COMMIT_OFFSET, **READER).currOffset == 84


def test_positions_jump_to_the_end(used: EmbeddedTubeMQ) -> None:
    fields = {"groupName": "g", "manualSet": "false", "modifyUser": "me", "topicName": "flights"}
    assert ask(used, "admin_set_offset", **fields)["result"] is True
    assert positions(used) == {0: 168, 1: 168, 10_000: 0, 10_001: 0}


def test_one_position_is_set_within_the_ends_only(used: EmbeddedTubeMQ) -> None:
    where = {"topicName": "flights", "groupName": "g", "partitionId": 0, "modifyUser": "me"}
    answer = ask(used, "admin_manual_set_current_offset", **where, manualOffset=112)
    assert (answer["result"], answer["oldOffset"]) == (True, 56)
    assert ask(used, "admin_manual_set_current_offset", **where, manualOffset=196)["errCode"] == 400
    assert positions(used)[0] == 112


def test_positions_are_cloned_and_removed(used: EmbeddedTubeMQ) -> None:
    fields = {"sourceGroupName": "g", "targetGroupName": "a,b", "modifyUser": "me"}
    assert ask(used, "admin_clone_offset", **fields)["result"] is True
    assert positions(used, "a")[0] == positions(used, "b")[0] == 56
    assert ask(used, "admin_clone_offset", **(fields | {"sourceGroupName": "nobody"}))["result"] is False
    assert ask(used, "admin_rmv_offset", groupName="a", topicName="clicks", modifyUser="me")["result"] is True
    assert positions(used, "a")[0] == 56
    assert ask(used, "admin_rmv_offset", groupName="a", modifyUser="me")["result"] is True
    assert ask(used, "admin_query_offset", groupName="a")["dataSet"] == []


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("admin_set_offset", {"groupName": "g", "manualSet": "true", "modifyUser": "me", "offsetJsonInfo": "[1]"}),
        (
            "admin_set_offset",
            {"groupName": "g", "manualSet": "true", "modifyUser": "me", "offsetJsonInfo": '{"1:a": 2}'},
        ),
        ("admin_set_offset", {"groupName": "g", "manualSet": "true", "offsetJsonInfo": '{"1:flights:0": 0}'}),
        ("admin_rmv_offset", {"groupName": "g"}),
        ("admin_nonsense", {}),
    ],
)
def test_calls_that_make_no_sense_change_nothing(used: EmbeddedTubeMQ, method: str, parameters: dict[str, str]) -> None:
    answer = ask(used, method, **parameters)
    assert (answer["result"], answer["errCode"]) == (False, 400)
    assert positions(used)[0] == 56
