"""The process's sums of what clients counted: they never fall, and nothing of a client is kept but its counts."""

from __future__ import annotations

import gc
import os
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tubeclient import metrics
from tubeclient.counts import OPERATION_SECONDS, Durations, SendCounts


class Owner:
    """A client."""


def total(topic: str, name: str = "messaging_client_sent_messages_total") -> float:
    return sum(
        values[0] for (metric, labels), values in metrics.totals().items() if metric.name == name and labels[0] == topic
    )


def test_the_sum_over_all_clients_stays_when_they_are_gone() -> None:
    owners = [Owner() for _ in range(3)]
    for owner in owners:
        counts = SendCounts()
        metrics.enter(owner, counts)
        counts.acknowledged("kept", 10, 0.1)
    assert total("kept") == 3
    gone = weakref.ref(owners.pop())
    del owner
    gc.collect()
    assert gone() is None
    assert total("kept") == total("kept") == 3
    counts = SendCounts()
    metrics.enter(owners[0], counts)
    counts.acknowledged("kept", 10, 0.1)
    assert total("kept") == 4


def test_what_is_so_now_ends_with_its_client() -> None:
    owner = Owner()
    metrics.enter(owner, SendCounts(), lambda _: SendCounts.now(7))
    name = "tubeclient_producer_in_flight_messages"
    before = sum(values[0] for (metric, _), values in metrics.totals().items() if metric.name == name)
    del owner
    gc.collect()
    after = sum(values[0] for (metric, _), values in metrics.totals().items() if metric.name == name)
    assert before - after == 7


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_begins_with_nothing() -> None:
    owner, counts = Owner(), SendCounts()
    metrics.enter(owner, counts)
    counts.acknowledged("forked", 1, 0.0)
    metrics._ledger._lock.acquire()  # as a thread that the child does not have
    try:
        child = os.fork()
        if child == 0:
            try:
                os._exit(int(bool(metrics.totals())))
            finally:
                os._exit(3)
    finally:
        metrics._ledger._lock.release()
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert total("forked") == 1


@given(st.lists(st.floats(min_value=-1, max_value=100, allow_nan=False)))
def test_each_duration_is_in_the_first_bucket_that_has_room(seconds: list[float]) -> None:
    durations = Durations()
    for one in seconds:
        durations.add(one)
    *counts, total_seconds = durations.values
    clipped = [max(0.0, one) for one in seconds]
    for place, bound in enumerate(OPERATION_SECONDS):
        assert sum(counts[: place + 1]) == sum(one <= bound for one in clipped)
    assert sum(counts) == len(seconds)
    assert total_seconds == pytest.approx(sum(clipped))
