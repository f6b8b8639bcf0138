"""The source on a real Spark 4.0, in an environment of its own and in one session, and an embedded TubeMQ."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embedded_tubemq import EmbeddedTubeMQ
from offsets_store import OffsetsTable
from tests.spark_source.feed import Feed
from tests.spark_source.other_driver import ROOT, SMALL, OtherDriver, places, texts

pytestmark = pytest.mark.spark

PYTHON = ROOT / ".venv" / "spark-4.0" / "bin" / "python"

LEASE_MS = 3_600_000
"""So long that a group which is free again was given back."""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtherDriver]:
    assert PYTHON.exists(), "there is no environment with Spark 4.0; `make setup-all` makes it"
    with OtherDriver(PYTHON, tmp_path_factory.mktemp("spark-4.0"), SMALL) as driver:
        yield driver


@pytest.fixture(scope="module")
def long_tube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedTubeMQ]:
    with EmbeddedTubeMQ(tmp_path_factory.mktemp("tube"), lease_ms=LEASE_MS) as running:
        yield running


@pytest.fixture
def topic(long_tube: EmbeddedTubeMQ, request: pytest.FixtureRequest) -> Feed:
    return Feed.create(long_tube, request.node.originalname.removeprefix("test_"), stores=2, partitions=2)


def test_batch_reads_and_views(spark: OtherDriver, topic: Feed) -> None:
    topic.send(100, tags=["web", "app"])
    assert spark.call("read", options=topic.options()) == texts(topic.sent)
    spark.call("make_view", name="clicks", options=topic.options(columns="*, attributes"))
    [row] = spark.call("sql", text="SELECT count(*), count(DISTINCT value), count(attributes['k']) FROM clicks")
    assert row == [100, 100, 100]
    query = "SELECT DISTINCT messageType, date_format(messageTime, 'yyyyMMddHHmm') FROM clicks ORDER BY 1"
    assert spark.call("sql", text=query) == [["app", "202401020304"], ["web", "202401020304"]]


def test_a_stream_goes_on_from_its_checkpoint(
    spark: OtherDriver, topic: Feed, long_tube: EmbeddedTubeMQ, tmp_path: Path
) -> None:
    """Nothing lost and nothing doubled, of a topic that came meanwhile neither; and the group is given back."""
    table = tmp_path / "offsets"
    options = topic.options(startingOffsets="earliest", offsetsTable=table, subscribePattern=f"{topic.topic}.*")
    del options["subscribe"]
    feeds = [topic]
    topic.send(100)
    for _ in range(2):
        spark.call("start", name="q", options=options, trigger={"processingTime": "0 seconds"}, **places(tmp_path))
        try:
            spark.wait_for_rows(tmp_path / "rows", feeds)
            assert set(topic.held()) == {0, 1}
            topic.send(50)
            spark.wait_for_rows(tmp_path / "rows", feeds)
        finally:
            spark.call("stop", name="q")
        topic.wait_until_free()
        topic.send(70)
        options["startingOffsets"] = "latest"  # which a checkpoint overrules, and new topics too
        if len(feeds) == 1:
            feeds.append(Feed.create(long_tube, f"{topic.topic}_too", stores=1, partitions=1))
            feeds[1].label = "new"
            feeds[1].send(30)
    positions = OffsetsTable(str(table)).positions(f"{topic.topic}_group", [feed.topic for feed in feeds])
    assert len(positions) == 5
    assert min(positions.values()) > 0


def test_available_now_is_one_batch(spark: OtherDriver, topic: Feed, tmp_path: Path) -> None:
    """Of all there is; and where the batch before did not complete, of that one alone."""
    more: dict[str, Any] = {"options": topic.options(startingOffsets="earliest"), **places(tmp_path)}
    topic.send(100)
    assert spark.run_available("q", **more) == [(0, 100)]
    topic.send(40)
    topic.wait_until_free()
    for written in ("checkpoint/commits", "rows"):  # as if it had died in its first batch
        shutil.rmtree(tmp_path / written)
    assert spark.run_available("q", **more) == [(0, 100)]
    topic.wait_until_free()
    assert spark.run_available("q", **more) == [(1, 40)]
    topic.wait_until_free()
    assert spark.call("rows", rows=str(tmp_path / "rows")) == texts(topic.sent)
