"""Flow-control rules: set over HTTP, handed to clients when they register and beat, each version once."""

from __future__ import annotations

import json
from typing import Any

from embedded_tubemq import DEFAULT_TOKEN, EmbeddedTubeMQ
from tests.embedded_tubemq.raw_client import RawClient, http_get
from tubeclient.wire.methods import Method

SLOW = json.dumps([{"type": 1, "rule": [{"zeroCnt": 1, "freqInMs": 60_000}]}])
SLOWER = json.dumps([{"type": 1, "rule": [{"zeroCnt": 1, "freqInMs": 90_000}]}])


def change(tube: EmbeddedTubeMQ, method: str, **parameters: Any) -> Any:
    who = {"createUser": "me", "modifyUser": "me", "confModAuthToken": DEFAULT_TOKEN}
    return http_get(tube.master_web_port, method, **(who | parameters))


def orders(to_master: RawClient, group: str = "g", **known: int) -> Any:
    """What a heartbeat brings to a client that knows these versions."""
    fields = {"opsTaskInfo": known} if known else {}
    return to_master.call(Method.CONSUMER_HEARTBEAT_V2, clientId="c", groupName=group, **fields).opsTaskInfo


def join(to_master: RawClient, group: str = "g") -> Any:
    return to_master.call(
        Method.CONSUMER_REGISTER_V2,
        clientId="c",
        groupName=group,
        hostName="h",
        topicList=["flights"],
        sourceCount=-2,
        nodeId=-2,
    ).opsTaskInfo


def test_a_groups_rules_reach_its_clients_once(tube: EmbeddedTubeMQ, to_master: RawClient) -> None:
    assert not join(to_master).HasField("groupFlowCheckId")
    join(to_master, "other")
    answer = change(tube, "admin_set_group_flow_control_rule", groupName="g", flowCtrlInfo=SLOW, statusId="1")
    assert answer["data"] == [{"groupName": "g", "success": True, "errCode": 200, "errInfo": "Ok!"}]
    first = orders(to_master)
    assert (first.groupFlowControlInfo, first.qryPriorityId) == (SLOW, 301)
    again = orders(to_master, groupFlowCheckId=first.groupFlowCheckId)
    assert again.groupFlowCheckId == first.groupFlowCheckId
    assert not again.HasField("groupFlowControlInfo")
    assert not orders(to_master, "other").HasField("groupFlowCheckId")
    change(tube, "admin_set_group_flow_control_rule", groupName="g", flowCtrlInfo=SLOWER)
    assert orders(to_master, groupFlowCheckId=first.groupFlowCheckId).groupFlowControlInfo == SLOWER
    assert join(to_master).groupFlowControlInfo == SLOWER


def test_the_clusters_rules_reach_all(tube: EmbeddedTubeMQ, to_master: RawClient) -> None:
    change(tube, "admin_set_cluster_default_setting", flowCtrlInfo=SLOW, flowCtrlEnable="true")
    for group in ("g", "other"):
        found = join(to_master, group)
        assert found.defFlowControlInfo == SLOW
        assert not found.HasField("groupFlowCheckId")
        known = orders(to_master, group, defFlowCheckId=found.defFlowCheckId)
        assert not known.HasField("defFlowControlInfo")
