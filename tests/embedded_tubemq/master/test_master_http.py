"""The master's HTTP interface: shapes, both names of parameters, and the token."""

from __future__ import annotations

from typing import Any

import pytest

from embedded_tubemq import DEFAULT_TOKEN, EmbeddedTubeMQ, TopicConfig
from tests.embedded_tubemq.raw_client import RawClient, http_get
from tubeclient.wire.methods import Method


@pytest.fixture
def joined(tube: EmbeddedTubeMQ, to_master: RawClient) -> EmbeddedTubeMQ:
    """Two consumers of group g; the second holds two partitions."""
    for node in range(2):
        to_master.call(
            Method.CONSUMER_REGISTER_V2,
            clientId=f"c{node}",
            groupName="g",
            hostName="h",
            sourceCount=2,
            nodeId=node,
            topicList=["flights"],
            topicCondition=["flights#b,a"],
        )
    report = {"brokerConfigId": -2, "topicMetaInfoId": -2, "reportSubInfo": True}
    to_master.call(
        Method.CONSUMER_HEARTBEAT_V2,
        clientId="c1",
        groupName="g",
        subRepInfo={**report, "partSubInfo": ["flights#1:0,2:10001"]},
    )
    return tube


def ask(tube: EmbeddedTubeMQ, method: str, **parameters: Any) -> Any:
    return http_get(tube.master_web_port, method, **parameters)


def test_brokers_and_where_their_web_ports_are(tube: EmbeddedTubeMQ) -> None:
    answer = ask(tube, "admin_query_broker_run_status")
    assert (answer["result"], answer["errCode"], answer["errMsg"], answer["count"]) == (True, 0, "OK", 2)
    for row in answer["data"]:
        broker_id = row["brokerId"]
        assert f"{row['brokerIp']}:{row['brokerPort']}" == tube.broker_addresses[broker_id]
        assert row["brokerWebPort"] == tube.broker_web_ports[broker_id]
        assert (row["manageStatus"], row["runStatus"], row["subStatus"]) == ("online", "running", "idle")
        assert (row["isBrokerOnline"], row["acceptPublish"], row["acceptSubscribe"]) == ("true", "true", "true")
    assert [row["brokerId"] for row in ask(tube, "admin_query_broker_run_status", brokerId="2")["data"]] == [2]
    tube.stop_broker(2)
    status = {row["brokerId"]: row["runStatus"] for row in ask(tube, "admin_query_broker_run_status")["data"]}
    assert status == {1: "running", 2: "unRegister"}


def test_topics(tube: EmbeddedTubeMQ) -> None:
    answer = ask(tube, "admin_query_topic_info", topicName="flights,nowhere")
    (topic,) = answer["data"]
    assert (topic["topicName"], topic["infoCount"]) == ("flights", 2)
    assert (topic["totalCfgNumPart"], topic["totalRunNumPartCount"], topic["isSrvAcceptSubscribe"]) == (8, 8, True)
    row = topic["topicInfo"][0]
    assert (row["brokerId"], row["numTopicStores"], row["numPartitions"], row["topicStatusId"]) == (1, 2, 2, 0)
    assert row["runInfo"]["acceptSubscribe"] is True
    tube.stop_broker(2)
    (topic,) = ask(tube, "admin_query_topic_info", topic="flights", brokerId="2")["data"]
    assert (topic["totalRunNumPartCount"], topic["topicInfo"][0]["runInfo"]["acceptSubscribe"]) == (0, "-")


@pytest.mark.parametrize("name", ["groupName", "consumeGroup", "group"])
def test_a_groups_page_shows_nodes_and_the_partitions_they_reported(joined: EmbeddedTubeMQ, name: str) -> None:
    answer = ask(joined, "admin_query_consume_group_detail", **{name: "g"})
    assert (answer["count"], answer["consumeGroup"], answer["topicSet"]) == (2, "g", ["flights"])
    assert (answer["isBandConsume"], answer["filterConds"]) == ("client-rebalance", {"flights": ["a", "b"]})
    assert answer["metaDetails"] == ["flights#1:2:2:1,2:2:2:1"]
    idle, busy = answer["data"]
    assert (idle["consumerId"], idle["sourceCount"], idle["nodeId"], idle["parCount"]) == ("c0", 2, 0, 0)
    assert (busy["consumerId"], busy["nodeId"], busy["parCount"], busy["isOverTLS"]) == ("c1", 1, 2, False)
    addresses = joined.broker_addresses
    assert busy["parInfo"] == [
        {"partId": 0, "brokerAddr": f"1:{addresses[1]}", "topicName": "flights"},
        {"partId": 10_001, "brokerAddr": f"2:{addresses[2]}", "topicName": "flights"},
    ]


def test_groups_by_topic(joined: EmbeddedTubeMQ) -> None:
    expected = [{"consumeGroup": "g", "topicSet": ["flights"], "consumerNum": 2}]
    assert ask(joined, "admin_query_sub_info")["data"] == expected
    assert ask(joined, "admin_query_sub_info", group="g", topic="flights")["data"] == expected
    assert ask(joined, "admin_query_sub_info", topicName="clicks")["data"] == []
    assert ask(joined, "admin_query_sub_info", groupName="other")["data"] == []
    assert ask(joined, "admin_query_client_balance_group_set")["data"] == ["g"]


def test_changes_need_the_token(tube: EmbeddedTubeMQ) -> None:
    fields = {"topicName": "clicks", "createUser": "me"}
    assert ask(tube, "admin_add_new_topic_record", **fields)["result"] is False
    assert ask(tube, "admin_add_new_topic_record", **fields, confModAuthToken="wrong")["result"] is False
    assert ask(tube, "admin_query_topic_info", topicName="clicks")["count"] == 0


def test_topics_are_made_changed_and_deleted(tube: EmbeddedTubeMQ) -> None:
    token = {"authToken": DEFAULT_TOKEN}
    made = ask(tube, "admin_add_new_topic_record", topic="clicks", numPart="3", cur="me", **token, post=True)
    assert [(row["brokerId"], row["success"]) for row in made["data"]] == [(1, True), (2, True)]
    again = ask(tube, "admin_add_new_topic_record", topicName="clicks", createUser="me", **token)
    assert [(row["success"], row["errCode"]) for row in again["data"]] == [(False, 402)] * 2
    reloaded = ask(tube, "admin_reload_broker_configure", brokerId="1,7", modifyUser="me", **token)
    assert [(row["brokerId"], row["success"], row["errCode"]) for row in reloaded["data"]] == [
        (1, True, 200),
        (7, False, 401),
    ]
    grown = ask(tube, "admin_modify_topic_info", topicName="clicks", numTopicStores="2", modifyUser="me", **token)
    assert grown["result"] is True
    (topic,) = ask(tube, "admin_query_topic_info", topicName="clicks")["data"]
    assert (topic["topicInfo"][0]["numTopicStores"], topic["topicInfo"][0]["numPartitions"]) == (2, 3)
    shrunk = ask(tube, "admin_modify_topic_info", topicName="clicks", numTopicStores="1", modifyUser="me", **token)
    assert (shrunk["result"], shrunk["errCode"]) == (False, 400)
    assert ask(tube, "admin_delete_topic_info", topicName="clicks", modifyUser="me", **token)["result"] is True
    assert ask(tube, "admin_query_topic_info", topicName="clicks")["count"] == 0


@pytest.mark.parametrize(
    ("method", "names", "fields"),
    [
        ("admin_add_new_topic_record", "clicks,no name", {}),
        ("admin_add_new_topic_record", "clicks,more", {"numTopicStores": "9999"}),
        ("admin_modify_topic_info", "small,flights", {"numTopicStores": "1", "numPartitions": "5"}),
        ("admin_delete_topic_info", "small,nowhere", {}),
    ],
)
def test_a_refused_change_changes_no_topic(
    tube: EmbeddedTubeMQ, method: str, names: str, fields: dict[str, str]
) -> None:
    tube.create_topic(TopicConfig("small"))
    before = ask(tube, "admin_query_topic_info")["data"]
    who = {"createUser": "me", "modifyUser": "me", "confModAuthToken": DEFAULT_TOKEN}
    answer = ask(tube, method, topicName=names, **who, **fields)
    assert (answer["result"], answer["errCode"]) == (False, 400)
    assert ask(tube, "admin_query_topic_info")["data"] == before


def test_an_order_to_jump_to_the_end(joined: EmbeddedTubeMQ, to_master: RawClient) -> None:
    fields = {"groupName": "g,nobody", "modifyUser": "me", "confModAuthToken": DEFAULT_TOKEN}
    answer = ask(joined, "admin_set_client_balance_group_consume_from_max", **fields)
    assert [row["groupName"] for row in answer["data"]] == ["g"]
    beat = to_master.call(Method.CONSUMER_HEARTBEAT_V2, clientId="c0", groupName="g")
    assert beat.opsTaskInfo.csmFrmMaxOffsetCtrlId > 0


@pytest.mark.parametrize("method", ["", "admin_nonsense", "admin_query_consume_group_detail"])
def test_calls_that_make_no_sense_are_a_400_in_the_answer(tube: EmbeddedTubeMQ, method: str) -> None:
    answer = ask(tube, method)
    assert (answer["result"], answer["errCode"]) == (False, 400)
    assert answer["errMsg"]
