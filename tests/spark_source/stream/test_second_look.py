"""A partition that is missing in a layout is lost only when the master, asked anew, does not list it either."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark_source.fakes import STORE, FakeCluster, FakeLookup, as_json, planner
from tubeclient.errors import ConnectError, DeadlineExceeded
from tubeclient.keys import TopicLayout
from tubeclient.metadata import ClusterView
from tubeclient.positions.offset_lookup import OffsetLook

if TYPE_CHECKING:
    pass

BOTH = as_json({"1:t:0": 10, "1:t:10000": 5})
ASKED = "ask the master for 60000"


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
