"""A partition that is missing in a layout is lost only when the master, asked anew, does not list it either."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from embedded_tubemq import EmbeddedTubeMQ
from spark_source.cluster.cluster import TubeCluster
from spark_source.options.access import client_settings
from spark_source.options.given import parse_options
from spark_source.progress.progress_table import ProgressTable
from spark_source.stream.planner import StreamPlanner
from tests.group_page import group_page
from tests.spark_source.fakes import STORE, FakeCluster, FakeLookup, as_json, planner
from tests.spark_source.feed import Feed
from tests.spark_source.queries import Batches, run_available, running, stream
from tests.waiting import wait_for
from tubeclient.errors import ConnectError, DataLoss, DeadlineExceeded
from tubeclient.keys import TopicLayout
from tubeclient.metadata import ClusterView
from tubeclient.offset_lookup import OffsetLook
from tubeclient.wire.methods import Method

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BOTH = as_json({"1:t:0": 10, "1:t:10000": 5})
ASKED = "ask the master for 60000"

_numbers = itertools.count()


# In memory


def half_shown(whole: bool) -> FakeCluster:
    """Heartbeats brought a layout without the second store; asked anew, the master shows it, or does not."""
    cluster = FakeCluster(stores=2, partitions=1)
    if whole:
        cluster.layouts_when_asked = cluster.layouts
    cluster.layouts = [TopicLayout("t", 1, 1, 1)]
    return cluster


@pytest.mark.parametrize("fail", [True, False])
@pytest.mark.parametrize("entry", ["latest", "partitions"])
def test_a_partition_that_one_answer_misses_is_no_loss(
    entry: str, fail: bool, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = half_shown(whole=True)
    one = planner(cluster, failOnDataLoss=str(fail).lower())
    end = as_json({"1:t:0": 10, "1:t:10000": 10})
    if entry == "latest":
        assert one.latest(BOTH, None) == end
    else:
        assert [str(read.partition) for task in one.partitions(BOTH, end) for read in task.ranges] == ["1:t:10000"]
    assert cluster.count(ASKED) == 1
    assert "going on" not in caplog.text


def test_a_partition_that_the_master_misses_when_asked_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    strict, lenient = half_shown(whole=False), half_shown(whole=False)
    with pytest.raises(DataLoss, match="partition 1:t:10000 should be read from 140, but the cluster does not list"):
        planner(strict).latest(BOTH, None)
    one = planner(lenient, failOnDataLoss="false")
    for _ in range(3):
        assert one.latest(BOTH, None) == as_json({"1:t:0": 10})
    assert caplog.text.count("going on: partition 1:t:10000") == 1
    assert strict.count(ASKED) == lenient.count(ASKED) == 1


@pytest.mark.parametrize("fail", [True, False])
def test_without_the_master_nothing_is_given_up(fail: bool, caplog: pytest.LogCaptureFixture) -> None:
    cluster = half_shown(whole=False)
    cluster.unreachable = DeadlineExceeded("the masters showed no layout within 2000 ms")
    one = planner(cluster, failOnDataLoss=str(fail).lower(), retryLimit="2s")
    with pytest.raises(
        ConnectError, match=r"partition 1:t:10000 is missing in .* does not answer now .*within 2000 ms\. .* retryLimit"
    ):
        one.latest(BOTH, None)
    assert cluster.count("ask the master for 2000") == 1
    assert "going on" not in caplog.text


def test_what_brokers_lost_is_decided_without_the_master() -> None:
    cluster = FakeCluster(partitions=1, rows=(0, 3))
    cluster.unreachable = DeadlineExceeded("the masters showed no layout")
    with pytest.raises(DataLoss, match="the broker's data ends at 84"):
        planner(cluster).latest(as_json({"1:t:0": 5}), None)
    assert cluster.count("bounds") == 2


class HeartbeatInBetween(FakeLookup):
    """When the brokers have been asked for the first time, a layout without the second store comes."""

    def look(self, view: ClusterView) -> OffsetLook:
        found = super().look(view)
        if self._cluster.count("bounds") == 1:
            self._cluster.layouts_when_asked = self._cluster.layouts
            self._cluster.layouts = [TopicLayout("t", 1, 1, 1)]
        return found


def test_what_only_the_second_look_misses_is_looked_for_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first look found something else, which was passing."""
    cluster = FakeCluster(stores=2, partitions=1)
    monkeypatch.setattr(cluster, "lookup", lambda: HeartbeatInBetween(cluster))
    cluster.next_rows = [{STORE: (0, 3), STORE._replace(store_id=1): (0, 10)}]
    assert planner(cluster).latest(BOTH, None) == as_json({"1:t:0": 10, "1:t:10000": 10})
    assert (cluster.count("bounds"), cluster.count(ASKED)) == (3, 1)


# Over sockets


class Two:
    """Two topics of one store each that were read to the sixth message of ten."""

    def __init__(self, tube: EmbeddedTubeMQ) -> None:
        self.tube = tube
        prefix = f"second_look{next(_numbers)}_"
        self.stays, self.hides = (Feed.create(tube, prefix + name, stores=1, partitions=1) for name in "ab")
        for feed in (self.stays, self.hides):
            feed.send(10)
        self.group = f"{prefix}group"
        self.start = as_json({f"1:{feed.topic}:0": 6 for feed in (self.stays, self.hides)})
        self.end = as_json({f"1:{feed.topic}:0": 10 for feed in (self.stays, self.hides)})

    def options(self, **more: object) -> dict[str, str]:
        """The layout is never asked for by itself."""
        both = f"{self.stays.topic},{self.hides.topic}"
        return self.stays.options(
            self.group, **{"subscribe": both, "partitionRefreshInterval": "1h", "startingOffsets": "earliest", **more}
        )

    def pattern(self) -> dict[str, str]:
        options = self.options(subscribePattern=f"{self.stays.topic[:-1]}[ab]")
        return {name: text for name, text in options.items() if name != "subscribe"}

    def hidden(self) -> bool:
        """Whether an answer without the topic is still to come."""
        return bool(self.tube.master_faults.take_hidden(frozenset({self.hides.topic})))


@pytest.fixture
def two(tube: EmbeddedTubeMQ) -> Iterator[Two]:
    yield Two(tube)
    tube.master_faults.clear()


@contextlib.contextmanager
def planning(options: dict[str, str]) -> Iterator[StreamPlanner]:
    parsed = parse_options({name.lower(): text for name, text in options.items()})
    one = StreamPlanner(parsed, TubeCluster(client_settings(parsed), parsed), ProgressTable(parsed))
    try:
        yield one
    finally:
        one.close()


@pytest.mark.parametrize("by_pattern", [False, True])
def test_a_topic_that_one_answer_of_the_master_misses_is_read_on(two: Two, by_pattern: bool) -> None:
    two.tube.master_faults.hide_topic(two.hides.topic)
    with planning(two.pattern() if by_pattern else two.options()) as one:
        assert one.latest(two.start, None) == two.end
        assert not two.hidden()


def test_a_topic_that_the_master_misses_twice_is_lost(two: Two) -> None:
    two.tube.master_faults.hide_topic(two.hides.topic, times=2)
    lost = f"partition 1:{two.hides.topic}:0 should be read from 168, but the cluster does not list it any more"
    with planning(two.options()) as one, pytest.raises(DataLoss, match=lost):
        one.latest(two.start, None)
    assert not two.hidden()


def test_a_master_that_answers_again_in_time_is_waited_for(two: Two) -> None:
    """Three calls that it does not answer: a restart, or a change of the active one."""
    faults = two.tube.master_faults
    faults.hide_topic(two.hides.topic)
    with planning(two.options()) as one:
        assert one.partitions(two.start, two.start) == []  # joins
        for number in range(3):
            faults.break_connection(Method.PARTITION_METADATA, nth=number + 1)
        assert one.latest(two.start, None) == two.end
        assert faults.take_connection_fault(Method.PARTITION_METADATA) is None


def test_a_master_that_stays_away_is_an_error_within_retry_limit(two: Two) -> None:
    two.tube.master_faults.hide_topic(two.hides.topic)
    with planning(two.options(retryLimit="1s", failOnDataLoss="false")) as one:
        assert one.partitions(two.start, two.start) == []  # joins
        two.tube.master_faults.standby = True
        with pytest.raises(ConnectError) as caught:
            one.latest(two.start, None)
    text = str(caught.value)
    assert text.startswith(f"partition 1:{two.hides.topic}:0 is missing in the master's last layout")
    assert f"no layout within 1000 ms: no master answered; tried {two.tube.master_address} (" in text


# On Spark


@pytest.mark.spark
def test_a_query_whose_first_layout_misses_a_topic_goes_on(delta_spark: SparkSession, two: Two, tmp_path: Path) -> None:
    sink, checkpoint, frame = Batches(), tmp_path / "checkpoint", stream(delta_spark, two.options())
    run_available(frame, checkpoint, sink)
    two.stays.send(5)
    two.hides.send(5)
    wait_for(lambda: not group_page(two.tube.master_web_port, two.group), "the group to be free")
    two.tube.master_faults.hide_topic(two.hides.topic)
    expected = sorted(two.stays.sent + two.hides.sent)
    with running(frame, checkpoint, sink) as query:
        wait_for(lambda: sink.all == expected or query.exception(), "all messages", seconds=60)
        assert query.exception() is None
    assert not two.hidden()
