"""The JSON of masters and brokers becomes values, or one ProtocolError, whatever it is."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tubeclient.web_answers import ANSWERS, PARSERS
from tests.wire.fuzz import FUZZ, damaged, outcome
from tubeclient import (
    BrokerInfo,
    BrokerState,
    DeployedTopic,
    GroupDetail,
    GroupKind,
    GroupMember,
    GroupSummary,
    ManageStatus,
    PartitionKey,
    PartitionPosition,
    ProtocolError,
    RemoteError,
    RunStatus,
    StoreBounds,
    StoreKey,
    TopicOnBroker,
    TopicStatus,
)
from tubeclient.admin.answers.fields import Fields
from tubeclient.admin.answers.master import to_brokers
from tubeclient.keys import StoreFiles
from tubeclient.net.http import parse_answer

BROKER, OTHER = BrokerInfo(1, "127.0.0.1", 21231), BrokerInfo(2, "127.0.0.1", 21231)

EXPECTED: dict[str, object] = {
    "brokers": [
        BrokerState(BROKER, 8124, 21232, ManageStatus.ONLINE, RunStatus.RUNNING, True, False, False),
        BrokerState(OTHER, 8124, 21232, ManageStatus.ONLY_READ, RunStatus.UNREGISTERED, False, False, False),
    ],
    "topics": [
        DeployedTopic(
            "one",
            4 << 20,
            (
                TopicOnBroker("one", BROKER, 1, 2, True, False, True, TopicStatus.OK),
                TopicOnBroker("one", OTHER, 2, 3, False, False, False, TopicStatus.SOFT_DELETED),
            ),
        )
    ],
    "groups": [GroupSummary("members", frozenset({"one", "two"}), 2)],
    "group": GroupDetail(
        "members",
        GroupKind.CLIENT_BALANCE,
        frozenset({"one"}),
        {"one": frozenset({"a", "b"})},
        (GroupMember("members_vm-19099", "127.0.0.1", True, 2, 1, (PartitionKey(2, "one", 10_000),)),),
    ),
    "change": ["broker 1: Existed record found"],
    "files": {StoreKey(1, "one", 1): StoreFiles(StoreBounds(28, 280), 99, 10_001)},
    "positions": [PartitionPosition(PartitionKey(1, "one", 10_001), 28, 56, 280)],
    "former": 28,
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
def test_what_apaches_servers_say(name: str) -> None:
    assert PARSERS[name](Fields(ANSWERS[name], "a server answered")) == EXPECTED[name]


@pytest.mark.parametrize("name", PARSERS)
@FUZZ
@given(st.data())
def test_an_answer_with_anything_in_it_is_a_value_or_one_error(name: str, data: st.DataObject) -> None:
    answer = copy.deepcopy(ANSWERS[name])
    for _ in range(data.draw(st.integers(1, 3))):
        container, key = data.draw(st.sampled_from(places(answer)))
        if not isinstance(container, list) and data.draw(st.booleans()):
            container.pop(key, None)
        elif isinstance(container, dict) or key < len(container):
            container[key] = data.draw(ANY_JSON)
    outcome(lambda: PARSERS[name](Fields(answer, "a server answered")), ProtocolError)


@FUZZ
@given(st.binary(max_size=40) | damaged(st.sampled_from([json.dumps(answer).encode() for answer in ANSWERS.values()])))
def test_any_bytes_are_an_object_or_one_error(body: bytes) -> None:
    found = outcome(lambda: parse_answer(body, "admin_x", "h:1"), ProtocolError, RemoteError)
    assert isinstance(found, dict) or issubclass(found, (ProtocolError, RemoteError))


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("brokerPort", 65_536, "'65536' in the field brokerPort, which is a whole number from 0 to 65535"),
        ("brokerPort", True, "'True' in the field brokerPort"),
        ("brokerIp", None, "'None' in the field brokerIp, which is a text"),
        ("acceptPublish", "yes", "'yes' in the field acceptPublish, which is true or false"),
        ("manageStatus", ..., " without the field manageStatus, which is a text"),
    ],
)
def test_an_error_names_server_call_and_field(field: str, value: object, text: str) -> None:
    answer = copy.deepcopy(ANSWERS["brokers"])
    if value is ...:
        del answer["data"][0][field]
    else:
        answer["data"][0][field] = value
    with pytest.raises(ProtocolError, match=f"http://h:1 answered admin_x.*{text}"):
        PARSERS["brokers"](Fields(answer, "http://h:1 answered admin_x"))


def test_words_of_later_versions_are_unknown_not_errors() -> None:
    answer = copy.deepcopy(ANSWERS["brokers"])
    answer["data"][1] |= {"manageStatus": "resting", "runStatus": "walking"}
    state = to_brokers(Fields(answer, "a server answered"))[0]
    assert (state.manage_status, state.run_status) == (ManageStatus.UNKNOWN, RunStatus.UNKNOWN)
    assert not state.is_in_service
