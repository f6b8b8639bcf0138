"""Who may join a group: every check, in its order, and leases."""

from __future__ import annotations

from typing import Any

import pytest

from embedded_tubemq.common.catalogue import TopicConfig
from embedded_tubemq.common.codes import Code
from tests.embedded_tubemq.machines import FakeMaster
from tubeclient.wire.methods import Method

LEASE_MS = 30_000


def test_a_client_that_joins_gets_the_brokers_a_token_and_no_partitions(master: FakeMaster) -> None:
    answer = master.join()
    assert (answer.errCode, answer.errMsg) == (Code.SUCCESS, "OK!")
    assert list(answer.brokerConfigList) == ["1:127.0.0.1:8123"]
    assert answer.brokerConfigId == master.catalogue.broker_version
    assert answer.HasField("authorizedInfo")
    assert answer.HasField("opsTaskInfo")


@pytest.mark.parametrize(
    "fields",
    [
        {"client_id": " "},
        {"client_id": "c" * 1025},
        {"hostName": ""},
        {"hostName": "h" * 257},
        {"group": ""},
        {"group": "g" * 1025},
        {"topicList": []},
        {"topicList": [" "]},
        {"node": 2},
        {"node": -1},
        {"topicCondition": ["clicks#a"]},
        {"topicCondition": ["nonsense"]},
    ],
)
def test_senseless_parameters_are_a_400(master: FakeMaster, fields: dict[str, Any]) -> None:
    assert master.join(**fields).errCode == Code.BAD_REQUEST
    assert not master.machine.groups


def test_a_topic_that_is_not_deployed_is_a_431_that_names_it(master: FakeMaster) -> None:
    answer = master.join(topicList=["flights", "nowhere"])
    assert answer.errCode == Code.TOPIC_NOT_DEPLOYED
    assert "nowhere" in answer.errMsg


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"topicList": ["clicks"]}, Code.TOPIC_SET_CONFLICT),
        ({"topicList": ["flights", "clicks"]}, Code.TOPIC_SET_CONFLICT),
        ({"topicCondition": ["flights#a"]}, Code.FILTER_SET_CONFLICT),
        ({"count": 3, "node": 1}, Code.SOURCE_COUNT_CONFLICT),
        ({"node": 0}, Code.NODE_ID_CONFLICT),
    ],
)
def test_who_does_not_fit_the_group_is_refused(master: FakeMaster, fields: dict[str, Any], code: Code) -> None:
    assert master.join().errCode == Code.SUCCESS
    wrong: dict[str, Any] = {"client_id": "c1", "node": 1} | fields
    assert master.join(**wrong).errCode == code
    assert list(master.machine.groups["g"].consumers) == ["c0"]


# Each step breaks one more rule; the earliest one in TubeMQ's order must be the one that answers.
def test_the_first_broken_rule_answers(master: FakeMaster) -> None:
    master.join()
    wrong: dict[str, Any] = {"client_id": "c1", "node": 0}
    steps: list[tuple[dict[str, Any], Code]] = [
        ({}, Code.NODE_ID_CONFLICT),
        ({"count": 3}, Code.SOURCE_COUNT_CONFLICT),
        ({"topicCondition": ["flights#a"]}, Code.FILTER_SET_CONFLICT),
        ({"topicList": ["flights", "clicks"]}, Code.TOPIC_SET_CONFLICT),
        ({"node": 7}, Code.BAD_REQUEST),
        ({"topicList": ["nowhere"]}, Code.TOPIC_NOT_DEPLOYED),
        ({"topicList": []}, Code.BAD_REQUEST),
    ]
    for change, code in steps:
        wrong |= change
        assert master.join(**wrong).errCode == code, change


def test_topics_may_be_reserved_for_some_groups_and_tags() -> None:
    topic = TopicConfig("flights", authorized_groups=frozenset({"g"}), allowed_tags={"g": frozenset({"a", "b"})})
    master = FakeMaster(topic)
    assert master.join(group="other").errCode == Code.GROUP_FORBIDDEN
    assert master.join().errCode == Code.FILTER_FORBIDDEN
    assert master.join(topicCondition=["flights#a,c"]).errCode == Code.FILTER_FORBIDDEN
    assert master.join(topicCondition=["flights#a"]).errCode == Code.SUCCESS


@pytest.mark.parametrize("method", [Method.CONSUMER_HEARTBEAT_V2, Method.PARTITION_METADATA])
def test_a_lease_lasts_30_s_from_the_last_sign_of_life(master: FakeMaster, method: Method) -> None:
    fields = {"brokerConfigId": -2, "topicMetaInfoId": -2} if method is Method.PARTITION_METADATA else {}
    master.join()
    master.now_ms += LEASE_MS - 1
    assert master.call(method, clientId="c0", groupName="g", **fields).errCode == Code.SUCCESS
    master.now_ms += LEASE_MS - 1
    assert master.call(method, clientId="c0", groupName="g", **fields).errCode == Code.SUCCESS
    master.now_ms += LEASE_MS
    assert master.call(method, clientId="c0", groupName="g", **fields).errCode == Code.HB_NO_NODE
    assert "g" not in master.machine.groups


def test_a_node_whose_client_died_is_free_after_the_lease(master: FakeMaster) -> None:
    master.join("c0", node=0)
    master.now_ms += LEASE_MS - 1
    assert master.join("c1", node=0).errCode == Code.NODE_ID_CONFLICT
    master.now_ms += 1
    assert master.join("c1", node=0).errCode == Code.SUCCESS


def test_strangers_get_a_411(master: FakeMaster) -> None:
    assert master.heartbeat().errCode == Code.HB_NO_NODE
    master.join()
    assert master.heartbeat("somebody").errCode == Code.HB_NO_NODE
    assert master.heartbeat(group="elsewhere").errCode == Code.HB_NO_NODE


def test_reports_of_partitions_are_kept_until_the_next_report(master: FakeMaster) -> None:
    def report(*texts: str, meant: bool = True) -> dict[str, Any]:
        versions = {"brokerConfigId": -2, "topicMetaInfoId": -2}
        return {"subRepInfo": {**versions, "reportSubInfo": meant, "partSubInfo": texts}}

    master.join(**report("flights#1:0,1:10003"))
    consumer = master.machine.groups["g"].consumers["c0"]
    assert [str(key) for key in consumer.partitions] == ["1:flights:0", "1:flights:10003"]
    master.heartbeat(**report(meant=False))
    assert len(consumer.partitions) == 2
    master.heartbeat(**report("flights#1:1"))
    assert [str(key) for key in consumer.partitions] == ["1:flights:1"]
    assert master.heartbeat(**report("nonsense")).errCode == Code.BAD_REQUEST
