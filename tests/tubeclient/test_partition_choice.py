"""Round robin with rests: the clock is the test's."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tubeclient.errors import ConnectError, ConnectionLost, PartitionUnavailable, TubeError, status_error
from tubeclient.flows.produce import (
    BROKER_REST_MS,
    FAILURES_BEFORE_REST,
    PARTITION_REST_MS,
    UNREACHABLE_REST_MS,
    PartitionChoice,
    Routes,
)
from tubeclient.keys import BrokerInfo, PartitionKey, TopicLayout

FAILING = PartitionKey(1, "clicks", 0)
LAYOUTS = [TopicLayout("clicks", 1, 1, 2), TopicLayout("clicks", 2, 1, 2), TopicLayout("other", 1, 1, 9)]
BROKERS = {number: BrokerInfo(number, "10.0.0.1", 8122 + number) for number in (1, 2)}


@pytest.fixture
def choice() -> PartitionChoice:
    chosen = PartitionChoice("clicks", start=7)
    chosen.update(LAYOUTS)
    return chosen


@pytest.fixture
def routes() -> Routes:
    made = Routes()
    made.add("clicks", 7)
    made.add("other", 7)
    made.update(LAYOUTS, BROKERS)
    return made


def rounds(choice: PartitionChoice, count: int, now_ms: float) -> Counter[PartitionKey]:
    return Counter(choice.choose(now_ms) for _ in range(count))


def brokers_of(routes: Routes, topic: str, now_ms: float) -> set[int]:
    return {routes.choose(topic, now_ms)[1].broker_id for _ in range(40)}


def test_all_partitions_in_turn(choice: PartitionChoice) -> None:
    assert set(rounds(choice, 40, 0).values()) == {10}
    assert len(rounds(choice, 4, 0)) == 4


def test_a_failing_partition_rests_and_comes_back(choice: PartitionChoice) -> None:
    for _ in range(FAILURES_BEFORE_REST):
        choice.failed(FAILING, 0)
    assert FAILING in rounds(choice, 4, 0)
    choice.failed(FAILING, 0)
    assert FAILING not in rounds(choice, 40, PARTITION_REST_MS - 1)
    assert FAILING in rounds(choice, 4, PARTITION_REST_MS)


@pytest.mark.parametrize(
    ("error", "rest_ms"),
    [
        (status_error(503, "stopped"), BROKER_REST_MS),
        (ConnectError("refused"), UNREACHABLE_REST_MS),
        (status_error(419, "full"), 0),
        (ConnectionLost("gone"), 0),
    ],
)
def test_a_broker_out_of_order_rests_for_all_topics(routes: Routes, error: TubeError, rest_ms: float) -> None:
    routes.update([*LAYOUTS, TopicLayout("other", 2, 1, 1)], BROKERS)
    routes.failed(FAILING, error, 0)
    for topic in ("clicks", "other"):
        assert brokers_of(routes, topic, rest_ms - 1) == ({2} if rest_ms else {1, 2})
        assert brokers_of(routes, topic, rest_ms) == {1, 2}


def test_a_broker_that_takes_a_message_rests_no_longer(routes: Routes) -> None:
    routes.failed(FAILING, status_error(503, "stopped"), 0)
    routes.succeeded(PartitionKey(1, "clicks", 1))
    assert brokers_of(routes, "clicks", 0) == {1, 2}


def test_topics_come_and_go(routes: Routes) -> None:
    assert routes.topics == ["clicks", "other"]
    assert routes.is_writable("other")
    routes.update([layout for layout in LAYOUTS if layout.topic == "clicks"], BROKERS)
    assert not routes.is_writable("other")
    assert routes.topics == ["clicks", "other"]
    new = TopicLayout("new", 1, 1, 1)
    assert routes.publish({"new": 7, "unknown": 7}, [new, TopicLayout("unknown", 3, 1, 1)], BROKERS) == ["unknown"]
    assert routes.topics == ["clicks", "new", "other"]
    assert routes.is_writable("new")
    with pytest.raises(PartitionUnavailable, match=r"topic unknown.*not published"):
        routes.choose("unknown", 0)
    key = PartitionKey(1, "unknown", 0)
    routes.succeeded(key)
    routes.failed(key, ConnectionLost("gone"), 0)


steps = st.one_of(
    st.tuples(st.just("choose"), st.integers(0, 11)),
    st.tuples(st.just("fail"), st.integers(0, 11)),
    st.tuples(st.just("succeed"), st.integers(0, 11)),
    st.tuples(st.just("rest"), st.integers(1, 3)),
    st.tuples(st.just("layout"), st.integers(1, 3)),
    st.tuples(st.just("wait"), st.integers(1, 60_000)),
)


@given(st.integers(-(1 << 40), 1 << 40), st.lists(steps, max_size=80))
def test_whatever_happened_every_partition_gets_its_turn_again(start: int, history: list[tuple[str, int]]) -> None:
    choice = PartitionChoice("clicks", start)
    layouts = [TopicLayout("clicks", broker, 1, 4) for broker in (1, 2, 3)]
    everything = [key for layout in layouts for key in layout.partitions()]
    choice.update(layouts)
    now = 0.0
    for what, number in history:
        if what == "choose":
            key = choice.choose(now, everything[number])
            assert key in choice.partitions
            assert key != everything[number] or not could_avoid(choice, now, everything[number])
        elif what == "fail":
            choice.failed(everything[number], now)
        elif what == "succeed":
            choice.succeeded(everything[number])
        elif what == "rest":
            choice.rest_broker(number, now + BROKER_REST_MS)
        elif what == "layout":
            choice.update(layouts[:number])
        else:
            now += number
    now += max(BROKER_REST_MS, PARTITION_REST_MS)
    count = len(choice.partitions)
    assert Counter(choice.choose(now) for _ in range(3 * count)) == dict.fromkeys(choice.partitions, 3)


def could_avoid(choice: PartitionChoice, now_ms: float, avoid: PartitionKey) -> bool:
    """Whether some other partition does not rest: a round of choices finds it."""
    found = Counter(choice.choose(now_ms) for _ in range(len(choice.partitions)))
    return any(key != avoid for key in found)
