"""The JSON of masters and brokers becomes values, or one ProtocolError, whatever it is."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tubeclient.web_answers import ANSWERS, PARSERS
from tests.wire.fuzz import FUZZ, outcome
from tubeclient import (
    BrokerInfo,
    BrokerState,
    DeployedTopic,
    GroupDetail,
    GroupMember,
    GroupSummary,
    PartitionKey,
    PartitionPosition,
    ProtocolError,
    StoreBounds,
    StoreKey,
    TopicOnBroker,
)
from tubeclient.admin.answers import Fields
from tubeclient.keys import StoreFiles

BROKER, OTHER = BrokerInfo(1, "127.0.0.1", 21231), BrokerInfo(2, "127.0.0.1", 21231)

EXPECTED: dict[str, object] = {
    "brokers": [
        BrokerState(BROKER, 8124, 21232, "online", "running", True, False, False),
        BrokerState(OTHER, 8124, 21232, "only-read", "unRegister", False, False, False),
    ],
    "topics": [
        DeployedTopic(
            "one",
            4 << 20,
            (
                TopicOnBroker("one", BROKER, 1, 2, True, False, True, "ok"),
                TopicOnBroker("one", OTHER, 2, 3, False, False, False, "soft deleted"),
            ),
        )
    ],
    "groups": [GroupSummary("members", frozenset({"one", "two"}), 2)],
    "group": GroupDetail(
        "members",
        "client-rebalance",
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
