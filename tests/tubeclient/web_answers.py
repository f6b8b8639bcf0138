"""Answers of Apache's master and brokers (2.4.0) to the client's web calls, shortened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tubeclient.admin.answers import (
    Fields,
    refusals,
    to_brokers,
    to_files,
    to_former_position,
    to_group,
    to_groups,
    to_positions,
    to_topics,
)

__all__ = ["ANSWERS", "PARSERS"]

_OK: Final = {"result": True, "errCode": 0, "errMsg": "OK"}
_BROKER: Final = {"brokerId": 1, "brokerIp": "127.0.0.1", "brokerPort": 21231}
_RUNNING: Final = {
    **_BROKER,
    "brokerWebPort": 21232,
    "manageStatus": "online",
    "brokerTLSPort": 8124,
    "enableTLS": False,
    "isRepAbnormal": False,
    "runStatus": "running",
    "subStatus": "processing_event",
    "stepOp": 3,
    "isConfChanged": "true",
    "acceptPublish": "true",
    "acceptSubscribe": "false",
}
_STOPPED: Final = {
    **_RUNNING,
    "brokerId": 2,
    "manageStatus": "only-read",
    "enableTLS": "-",
    "runStatus": "unRegister",
    "subStatus": "-",
    "acceptPublish": "-",
    "acceptSubscribe": "-",
}
_DEPLOYED: Final = {
    "topicName": "one",
    **_BROKER,
    "topicStatusId": 0,
    "numTopicStores": 2,
    "numPartitions": 3,
    "acceptPublish": True,
    "acceptSubscribe": True,
    "deletePolicy": "delete,168h",
}
_RUN: Final = {"acceptPublish": True, "acceptSubscribe": False, "numPartitions": 2, "numTopicStores": 1}
_NOT_RUN: Final = {"acceptPublish": "-", "acceptSubscribe": "-", "numPartitions": "-", "brokerManageStatus": "-"}
_NO_POSITION: Final = {"curOffset": -2, "flightOffset": -2, "offsetMax": 280}

ANSWERS: Final[dict[str, dict[str, Any]]] = {
    "brokers": {**_OK, "data": [_STOPPED, _RUNNING], "count": 2},
    "topics": {
        **_OK,
        "data": [
            {
                "topicName": "one",
                "maxMsgSizeInMB": 4,
                "topicInfo": [
                    {**_DEPLOYED, "brokerId": 2, "topicStatusId": 1, "runInfo": _NOT_RUN},
                    {**_DEPLOYED, "runInfo": _RUN},
                ],
            }
        ],
    },
    "groups": {**_OK, "data": [{"consumeGroup": "members", "topicSet": ["one", "two"], "consumerNum": 2}], "count": 1},
    "group": {
        **_OK,
        "count": 1,
        "topicSet": ["one"],
        "consumeGroup": "members",
        "re-rebalance": {},
        "isBandConsume": "client-rebalance",
        "filterConds": {"one": ["a", "b"]},
        "data": [
            {
                "consumerId": "members_vm-19099",
                "receivedFrom": "127.0.0.1",
                "isOverTLS": True,
                "sourceCount": 2,
                "nodeId": 1,
                "parCount": 1,
                "parInfo": [{"partId": 10_000, "brokerAddr": "2:127.0.0.2:21233", "topicName": "one"}],
            }
        ],
    },
    "change": {
        **_OK,
        "data": [
            {"brokerId": 1, "topicName": "one", "success": False, "errCode": 402, "errInfo": "Existed record found"},
            {"brokerId": 1, "topicName": "two", "success": True, "errCode": 200, "errInfo": "Ok!"},
        ],
    },
    "files": {
        **_OK,
        "dataSet": [
            {
                "topicName": "one",
                "offsetInfo": [{"partitionId": 10_001, "offsetMin": 28, "offsetMax": 280, "dataMin": 99}],
            }
        ],
    },
    "positions": {
        **_OK,
        "dataSet": [
            {
                "groupName": "etl",
                "subInfo": [
                    {
                        "topicName": "one",
                        "offsets": [
                            {"partitionId": 10_001, "curOffset": 28, "flightOffset": 56, "offsetMax": 280},
                            {"partitionId": 0, **_NO_POSITION},
                        ],
                    }
                ],
                "topicCount": 1,
            }
        ],
    },
    "former": {**_OK, "oldOffset": 28},
}

PARSERS: Final[dict[str, Callable[[Fields], object]]] = {
    "brokers": to_brokers,
    "topics": to_topics,
    "groups": to_groups,
    "group": to_group,
    "change": refusals,
    "files": lambda answer: to_files(answer, 1),
    "positions": lambda answer: to_positions(answer, 1, "etl"),
    "former": to_former_position,
}
