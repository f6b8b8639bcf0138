"""A partition that is missing from a layout is lost only when the master, asked anew, does not list it either."""

from __future__ import annotations

import pytest

from tests.spark_source.fakes import FakeCluster, as_json, planner
from tubeclient.errors import ConnectError, DeadlineExceeded
from tubeclient.keys import TopicLayout

BOTH = as_json({"1:t:0": 10, "1:t:10000": 5})
ASKED = "ask the master for 60000"


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
    assert "continuing" not in caplog.text


@pytest.mark.parametrize("fail", [True, False])
def test_without_the_master_nothing_is_given_up(fail: bool, caplog: pytest.LogCaptureFixture) -> None:
    cluster = half_shown(whole=False)
    cluster.unreachable = DeadlineExceeded("no master returned a layout within 2000 ms")
    one = planner(cluster, failOnDataLoss=str(fail).lower(), retryLimit="2s")
    with pytest.raises(
        ConnectError,
        match=r"partition 1:t:10000 is missing from .* does not answer now .*within 2000 ms\. .* retryLimit",
    ):
        one.latest(BOTH, None)
    assert cluster.count("ask the master for 2000") == 1
    assert "continuing" not in caplog.text
