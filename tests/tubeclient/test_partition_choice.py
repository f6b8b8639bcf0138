"""Round robin with rests: the clock is the test's."""

from __future__ import annotations

from collections import Counter

import pytest

from tubeclient.errors import NotAvailable
from tubeclient.flows.partition_choice import BROKER_REST_MS, FAILURES_BEFORE_REST, PARTITION_REST_MS, PartitionChoice
from tubeclient.keys import PartitionKey, TopicLayout

FAILING = PartitionKey(1, "clicks", 0)


@pytest.fixture
def choice() -> PartitionChoice:
    chosen = PartitionChoice("clicks", start=7)
    chosen.update([TopicLayout("clicks", 1, 1, 2), TopicLayout("clicks", 2, 1, 2), TopicLayout("other", 1, 1, 9)])
    return chosen


def rounds(choice: PartitionChoice, count: int, now_ms: float) -> Counter[PartitionKey]:
    return Counter(choice.choose(now_ms) for _ in range(count))


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


def test_a_success_forgets_failures(choice: PartitionChoice) -> None:
    for _ in range(FAILURES_BEFORE_REST * 2):
        choice.failed(FAILING, 0)
        choice.succeeded(FAILING)
    assert FAILING in rounds(choice, 4, 0)


def test_an_unavailable_broker_rests_as_a_whole(choice: PartitionChoice) -> None:
    choice.failed(FAILING, 0, whole_broker=True)
    assert {key.broker_id for key in rounds(choice, 40, BROKER_REST_MS - 1)} == {2}
    assert {key.broker_id for key in rounds(choice, 40, BROKER_REST_MS)} == {1, 2}


def test_where_all_rest_one_is_tried_all_the_same(choice: PartitionChoice) -> None:
    for broker_id in (1, 2):
        choice.failed(PartitionKey(broker_id, "clicks", 0), 0, whole_broker=True)
    assert len(rounds(choice, 40, 1)) == 4


def test_no_partition_is_an_error_naming_the_topic() -> None:
    with pytest.raises(NotAvailable, match="topic clicks"):
        PartitionChoice("clicks", 0).choose(0)
