"""commitOffsetsToBroker, without sockets: what brokers are told, when, and that the query never waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_source.offsets.offsets import Offsets
from spark_source.progress.latest_writer import Waits
from spark_source.progress.progress_table import QueryProgress
from spark_source.stream.group_position import BrokerPositions
from tests.spark_source.fakes import ROW, STORE, FakeClock, FakeCluster, as_json, key, options, planner
from tests.waiting import wait_for
from tubeclient.errors import BrokerFailed, ConfigurationError, ConnectError
from tubeclient.metadata import ClusterView

DOWN = BrokerFailed("broker 1:127.0.0.1:8123 failed: no answer", broker="1:127.0.0.1:8123")

Open = Callable[..., BrokerPositions]


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def opened(cluster: FakeCluster) -> Iterator[Open]:
    """`opened(interval_seconds=0)`: positions of group g, begun; closed after the test."""
    made: list[BrokerPositions] = []

    def make(given: dict[str, object] | None = None, interval_seconds: float = 1.0, **waits: float) -> BrokerPositions:
        chosen = options(**(given or {}))
        one = BrokerPositions(chosen, cluster, interval_seconds=interval_seconds, waits=Waits(**{"end": 10.0, **waits}))
        one.open(cluster.shown())
        made.append(one)
        return one

    yield make
    cluster.brokers_go_on.set()
    cluster.untold.clear()
    for one in made:
        one.close()
    wait_for(
        lambda: not any(thread.name.startswith("commitOffsetsToBroker") for thread in threading.enumerate()),
        "the threads' end",
    )


def at(**rows: int) -> Offsets:
    """Offsets of topic t by partition: at(p0=3)."""
    return Offsets.of({key(f"1:t:{name[1:]}"): row * ROW for name, row in rows.items()})


def position(complete: Offsets, view: ClusterView) -> QueryProgress:
    return QueryProgress(complete, {}, view, datetime.now(UTC))


def told(cluster: FakeCluster) -> dict[str, int]:
    return {str(name): offset // ROW for name, offset in cluster.positions.items()}


def test_planner_flushes_before_it_leaves() -> None:
    """The planner sends the brokers completed positions, the last ones before it leaves."""
    clock, cluster = FakeClock(), FakeCluster(rows=(0, 10))
    one = planner(cluster, clock, commitOffsetsToBroker=True, startingOffsets="earliest")
    begin = one.initial()
    middle = one.latest(begin, None)
    assert cluster.set == []
    cluster.rows[STORE] = (0, 16)
    clock.now += 60
    one.latest(middle, None)  # Spark asks for the next: this one is complete
    one.complete(as_json({"1:t:0": 16, "1:t:1": 16}))
    one.close()
    assert told(cluster) == {"1:t:0": 16, "1:t:1": 16}
    assert cluster.set[0] in ({"1:t:0": 10, "1:t:1": 10}, {"1:t:0": 16, "1:t:1": 16})
    assert cluster.calls.index("leave") == len(cluster.calls) - 2


def test_unknown_web_ports() -> None:
    """A query fails at its start if the brokers' web ports are unknown."""
    cluster = FakeCluster()
    cluster.books_unknown = ConnectError("broker 1:127.0.0.1:8123 ...; check masterWebPort")
    one = planner(cluster, commitOffsetsToBroker=True)
    with pytest.raises(
        ConfigurationError, match=r"commitOffsetsToBroker cannot .* check masterWebPort, or leave the option out"
    ):
        one.initial()


def test_slow_brokers_get_the_newest_only(cluster: FakeCluster, opened: Open) -> None:
    """Slow brokers delay nobody and get only the newest positions."""
    cluster.brokers_go_on.clear()
    one = opened(interval_seconds=0)
    for row in range(1, 100):
        one.record(position(at(p0=row, p1=row), cluster.shown()))
    cluster.brokers_go_on.set()
    one.close()
    assert len(cluster.set) <= 2
    assert told(cluster) == {"1:t:0": 99, "1:t:1": 99}


def test_only_changed_positions_are_set(cluster: FakeCluster, opened: Open) -> None:
    """The brokers get only positions that moved, of partitions that are read and exist."""
    one = opened(interval_seconds=0)
    others = {key("1:old:0"): 7 * ROW, key("9:t:0"): 7 * ROW, key("1:t:10000"): 7 * ROW}
    one.record(position(at(p0=1, p1=1).merge(others), cluster.shown()))
    wait_for(lambda: told(cluster) == {"1:t:0": 1, "1:t:1": 1}, "the first write")
    one.record(position(at(p0=1, p1=2).merge(others), cluster.shown()))
    one.close()
    assert cluster.set == [{"1:t:0": 1, "1:t:1": 1}, {"1:t:1": 2}]


@pytest.mark.parametrize("failure", [DOWN, RuntimeError("a fault of our own")])
def test_a_failure_is_one_warning_and_is_tried_again(
    cluster: FakeCluster, opened: Open, caplog: pytest.LogCaptureFixture, failure: Exception
) -> None:
    caplog.set_level("INFO")
    cluster.books_fail = failure
    one = opened(interval_seconds=0, retry=0.001)
    one.record(position(at(p0=1), cluster.shown()))
    wait_for(lambda: len(cluster.set) > 3, "some tries")
    assert told(cluster) == {}
    cluster.books_fail = None
    wait_for(lambda: told(cluster) == {"1:t:0": 1}, "the write that works")
    one.close()
    levels = [record.levelname for record in caplog.records]
    assert levels == ["WARNING", "INFO"]
    assert f"group g on the brokers was not written, so it is behind; trying again: {failure}" in caplog.text


def test_close_waits_for_the_first_position(cluster: FakeCluster, opened: Open) -> None:
    """Else the next reader of the group, who asks at once, would begin anew."""
    cluster.untold.set()
    one = opened()
    one.record(position(at(p0=1), cluster.shown()))
    closing = threading.Thread(target=one.close)
    closing.start()
    wait_for(lambda: cluster.asked > 3, "looks at what the brokers tell")
    assert closing.is_alive()
    cluster.untold.clear()
    closing.join(30)
    assert not closing.is_alive()


def test_start_before_positions_past_the_data(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A topic was created again. The query has nothing to read, and what comes later is to be read by the group."""
    cluster = FakeCluster(partitions=3, rows=(0, 4))
    cluster.positions = {key("1:t:0"): 8 * ROW, key("1:t:1"): 4 * ROW, key("1:t:2"): 9 * ROW}
    starts = '{"1:t:0": 112, "1:t:1": 0, "1:t:2": 252}'
    one = planner(cluster, commitOffsetsToBroker=True, startingOffsets=starts)
    one.initial()
    one.close()
    assert cluster.set == [{"1:t:0": 4}]
    assert "was past the end of the brokers' data in 1 partitions, such as 1:t:0" in caplog.text


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.booleans()), min_size=1, max_size=12))
def test_brokers_catch_up_after_failures(
    steps: list[tuple[int, int, bool]],
) -> None:
    """The brokers never lead the query and end where it ended, whatever fails on the way."""
    cluster = FakeCluster()
    one = BrokerPositions(options(), cluster, interval_seconds=0, waits=Waits(retry=0))
    one.open(cluster.shown())
    for first, second, fails in steps:
        cluster.books_fail = DOWN if fails else None
        one.record(position(at(p0=first, p1=second), cluster.shown()))
    cluster.books_fail = None
    one.close()
    assert told(cluster) == {"1:t:0": steps[-1][0], "1:t:1": steps[-1][1]}
    # What stood after each try is of one moment of the query, and later tries are of later ones.
    moments = iter([{"1:t:0": first, "1:t:1": second} for first, second, _ in steps])
    last_position: dict[str, int] = {}
    for written in cluster.set:
        before, last_position = last_position, {**last_position, **written}
        assert last_position == before or last_position in moments
