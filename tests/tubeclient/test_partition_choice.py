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
    Routes,
)
from tubeclient.keys import BrokerInfo, PartitionKey, TopicLayout

FAILING = PartitionKey(1, "clicks", 0)
LAYOUTS = [TopicLayout("clicks", 1, 1, 2), TopicLayout("clicks", 2, 1, 2), TopicLayout("other", 1, 1, 9)]
BROKERS = {number: BrokerInfo(number, "10.0.0.1", 8122 + number) for number in (1, 2, 3)}
GONE, STOPPED = ConnectionLost("gone"), status_error(503, "stopped")


@pytest.fixture
def routes() -> Routes:
    made = Routes()
    assert made.publish({"clicks": 7, "other": 7}, LAYOUTS, BROKERS) == []
    return made


def turns(routes: Routes, count: int, now_ms: float, topic: str = "clicks") -> Counter[PartitionKey]:
    return Counter(routes.choose(topic, now_ms)[0] for _ in range(count))


def brokers_of(routes: Routes, topic: str, now_ms: float) -> set[int]:
    return {key.broker_id for key in turns(routes, 40, now_ms, topic)}


def test_a_failing_partition_rests_and_comes_back(routes: Routes) -> None:
    for _ in range(FAILURES_BEFORE_REST):
        routes.failed(FAILING, GONE, 0)
    assert FAILING in turns(routes, 4, 0)
    routes.failed(FAILING, GONE, 0)
    assert FAILING not in turns(routes, 40, PARTITION_REST_MS - 1)
    assert FAILING in turns(routes, 4, PARTITION_REST_MS)


@pytest.mark.parametrize(
    ("error", "rest_ms"),
    [(STOPPED, BROKER_REST_MS), (ConnectError("refused"), UNREACHABLE_REST_MS), (status_error(419, "full"), 0)],
)
def test_a_broker_out_of_order_rests_for_all_topics(routes: Routes, error: TubeError, rest_ms: float) -> None:
    routes.publish({}, [*LAYOUTS, TopicLayout("other", 2, 1, 1)], BROKERS)
    routes.failed(FAILING, error, 0)
    for topic in ("clicks", "other"):
        assert brokers_of(routes, topic, rest_ms - 1) == ({2} if rest_ms else {1, 2})
        assert brokers_of(routes, topic, rest_ms) == {1, 2}
    routes.failed(FAILING, error, 0)
    routes.succeeded([PartitionKey(1, "clicks", 1)])
    assert brokers_of(routes, "clicks", 0) == {1, 2}


def test_topics_come_and_go(routes: Routes) -> None:
    new = [TopicLayout("new", 1, 1, 1), TopicLayout("unknown", 9, 1, 1)]
    assert routes.publish({"new": 7, "unknown": 7}, new, BROKERS) == ["unknown"]
    assert routes.topics == ["clicks", "new", "other"]
    with pytest.raises(PartitionUnavailable, match=r"topic other.*lists no partition"):
        routes.choose("other", 0)
    with pytest.raises(PartitionUnavailable, match=r"topic unknown.*not published"):
        routes.choose("unknown", 0)
    routes.publish({}, LAYOUTS, BROKERS)
    assert routes.choose("other", 0)


KEYS = [key for broker in (1, 2, 3) for key in TopicLayout("clicks", broker, 1, 4).partitions()]
steps = st.one_of(
    st.tuples(st.sampled_from(["choose", "fail", "stop", "succeed"]), st.integers(0, 11)),
    st.tuples(st.just("layout"), st.integers(1, 3)),
    st.tuples(st.just("wait"), st.integers(1, 60_000)),
)


@given(st.integers(-(1 << 40), 1 << 40), st.lists(steps, max_size=80))
def test_each_partition_gets_a_turn(start: int, history: list[tuple[str, int]]) -> None:
    """Each partition gets its turn again, whatever happened before."""
    routes = Routes()
    layouts = [TopicLayout("clicks", broker, 1, 4) for broker in (1, 2, 3)]
    routes.publish({"clicks": start}, layouts, BROKERS)
    now = 0.0
    for what, number in history:
        if what == "choose":
            key, broker = routes.choose("clicks", now, KEYS[number])
            assert key in routes.partitions("clicks")
            assert broker.broker_id == key.broker_id
            if key == KEYS[number]:  # no other one that does not rest, which a round of choices would find
                awake = turns(routes, len(routes.partitions("clicks")), now)
                assert set(awake) == {key}
        elif what == "succeed":
            routes.succeeded([KEYS[number]])
        elif what == "layout":
            routes.publish({}, layouts[:number], BROKERS)
        elif what == "wait":
            now += number
        else:
            routes.failed(KEYS[number], GONE if what == "fail" else STOPPED, now)
    now += max(BROKER_REST_MS, PARTITION_REST_MS)
    keys = routes.partitions("clicks")
    assert turns(routes, 3 * len(keys), now) == dict.fromkeys(keys, 3)
