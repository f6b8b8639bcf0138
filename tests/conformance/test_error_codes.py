"""Each code that a user meets becomes its error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.conformance.cluster import Cluster
from tests.conformance.conftest import MakeConsumer
from tests.conformance.consuming import partition_of
from tests.conformance.topics import GUARDED, TAGGED
from tubeclient import (
    DeadlineExceeded,
    GroupConflict,
    GroupForbidden,
    NodeIdConflict,
    NoSuchPartition,
    OffsetRange,
    PartitionKey,
    RangeReader,
    SourceCountConflict,
    StatusError,
    TopicNotDeployed,
)

pytestmark = pytest.mark.apache

KEY = partition_of("codes")


@dataclass(frozen=True)
class Bench:
    """What a case needs to provoke its code."""

    tube: Cluster
    consumer_of: MakeConsumer

    def read(self, key: PartitionKey) -> None:
        settings = replace(self.tube.settings, retry_limit_ms=300)
        with RangeReader(settings, ("codes-r0",), visit_token=self.tube.visit_token()) as reader:
            list(reader.read(self.tube.brokers[key.broker_id], OffsetRange(key, 0, 28)))


def partition_the_broker_does_not_have(bench: Bench) -> None:
    bench.read(PartitionKey(1, "codes", 77))


def other_topics(bench: Bench) -> None:
    bench.consumer_of("codes_topics", ["codes"])
    bench.consumer_of("codes_topics", ["codes", "calls"])


def other_filters(bench: Bench) -> None:
    bench.consumer_of("codes_filters", {"codes": ["one"]})
    bench.consumer_of("codes_filters", {"codes": ["two"]})


def other_source_count(bench: Bench) -> None:
    bench.consumer_of("codes_count", ["codes"], source_count=2, node_id=0)
    bench.consumer_of("codes_count", ["codes"], source_count=3, node_id=1)


def same_node(bench: Bench) -> None:
    for _ in range(2):
        bench.consumer_of("codes_node", ["codes"], source_count=2, node_id=1)


def unknown_topic(bench: Bench) -> None:
    bench.consumer_of("codes_topic", ["nowhere"])


def let_in(bench: Bench, group: str, topics: Any) -> None:
    """These have leave: no refusal counts here."""
    try:
        bench.consumer_of(group, topics).close()
    except StatusError as error:
        pytest.fail(f"{group} should be let in: {error}")


def group_without_leave(bench: Bench) -> None:
    bench.tube.restrict(GUARDED, {"insiders": []})
    let_in(bench, "insiders", ["guarded"])
    bench.consumer_of("strangers", ["guarded"])


def tag_without_leave(bench: Bench) -> None:
    bench.tube.restrict(TAGGED, {"tagged": ["one", "two"]})
    let_in(bench, "tagged", {"guarded_tags": ["two"]})
    bench.consumer_of("tagged", {"guarded_tags": ["three"]})


@dataclass(frozen=True)
class Case:
    """How to provoke a code, and what it becomes."""

    code: int
    kind: type[StatusError]
    provoke: Callable[[Bench], None]


CASES = [
    Case(425, GroupConflict, other_topics),
    Case(426, GroupConflict, other_filters),
    Case(429, SourceCountConflict, other_source_count),
    Case(430, NodeIdConflict, same_node),
    Case(431, TopicNotDeployed, unknown_topic),
    Case(450, GroupForbidden, group_without_leave),
    Case(455, GroupForbidden, tag_without_leave),
    Case(500, NoSuchPartition, partition_the_broker_does_not_have),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.code))
def test_a_code_becomes_its_error(tube: Cluster, consumer_of: MakeConsumer, case: Case) -> None:
    # What may pass is tried again until time is up; the error that says so was caused by the last refusal.
    with pytest.raises((case.kind, DeadlineExceeded)) as caught:
        case.provoke(Bench(tube, consumer_of))
    error = caught.value if isinstance(caught.value, StatusError) else caught.value.__cause__
    assert type(error) is case.kind
    assert error.code == case.code
    assert f"the server answered {case.code} (" in str(caught.value)
