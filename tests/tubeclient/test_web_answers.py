"""The JSON of masters and brokers becomes values, or one ProtocolError, whatever it is."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.fuzz import FUZZ, outcome
from tubeclient import ProtocolError
from tubeclient.admin.answers import (
    refusals,
    to_brokers,
    to_files,
    to_group,
    to_groups,
    to_positions,
    to_topics,
    value_of,
)

pytestmark = pytest.mark.nightly

# Answers of Apache's master and brokers (2.4.0), shortened.

_OK: Final = {"result": True, "errCode": 0, "errMsg": "OK"}
_BROKER: Final = {"brokerId": 1, "brokerIp": "127.0.0.1", "brokerPort": 21231}
_RUNNING: Final = {
    **_BROKER,
    "brokerWebPort": 21232,
    "manageStatus": "online",
    "brokerTLSPort": 8124,
    "runStatus": "running",
}
_STOPPED: Final = {
    **_RUNNING,
    "brokerId": 2,
    "manageStatus": "only-read",
    "runStatus": "unRegister",
}
_DEPLOYED: Final = {
    "topicName": "one",
    **_BROKER,
    "topicStatusId": 0,
    "numTopicStores": 2,
    "numPartitions": 3,
}
_RUN: Final = {"acceptPublish": True, "acceptSubscribe": False, "numPartitions": 2, "numTopicStores": 1}
_NOT_RUN: Final = {"acceptPublish": "-", "acceptSubscribe": "-", "numPartitions": "-"}
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
}

PARSERS: Final[dict[str, Callable[[Any], Any]]] = {
    "brokers": to_brokers,
    "topics": to_topics,
    "groups": to_groups,
    "group": to_group,
    "change": refusals,
    "files": lambda answer: to_files(answer, 1),
    "positions": lambda answer: to_positions(answer, 1, "etl"),
}

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(max_size=8), inside, max_size=4),
    max_leaves=10,
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every place of a JSON value as (container, key)."""
    inside = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    below = [place for _, item in inside if isinstance(item, (dict, list)) for place in places(item)]
    return [*((value, key) for key, _ in inside), *below]


@pytest.mark.parametrize("name", PARSERS)
@FUZZ
@given(st.data())
def test_answer_with_any_content(name: str, data: st.DataObject) -> None:
    """An answer with any content gives a value or one ProtocolError."""
    answer = copy.deepcopy(ANSWERS[name])
    assert value_of(answer, PARSERS[name], "a server answered")
    for _ in range(data.draw(st.integers(1, 3))):
        container, key = data.draw(st.sampled_from(places(answer)))
        if not isinstance(container, list) and data.draw(st.booleans()):
            container.pop(key, None)
        elif isinstance(container, dict) or key < len(container):
            container[key] = data.draw(ANY_JSON)
    outcome(lambda: value_of(answer, PARSERS[name], "a server answered"), ProtocolError)
