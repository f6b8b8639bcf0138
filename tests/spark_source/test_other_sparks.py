"""The source on the oldest and the newest Spark, each in an environment of its own and in one session.

All other tests run on Spark 4.2, the newest that has Delta. Nothing here needs Delta's jars: the offsets table is
written by delta-rs.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from embedded_tubemq import EmbeddedTubeMQ
from offsets_store import OffsetsTable
from tests.spark_source.connect_server import ConnectServer
from tests.spark_source.feed import Feed
from tests.spark_source.other_driver import ROOT, SMALL, CallFailed, OtherDriver, places, sink, texts

pytestmark = pytest.mark.spark

OLDEST = "4.0"

LEASE_MS = 3_600_000
"""So long that a group which is free again was given back."""


@pytest.fixture(scope="module", params=[OLDEST, "4.3", "4.3 over Connect"])
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtherDriver]:
    version, _, connect = request.param.partition(" over ")
    python = ROOT / ".venv" / f"spark-{version}" / "bin" / "python"
    assert python.exists(), f"there is no environment with Spark {version}; `make setup-all` makes it"
    with ExitStack() as stack:
        confs = SMALL
        if connect:
            server = stack.enter_context(ConnectServer(tmp_path_factory.mktemp("server"), python=python))
            confs = {"spark.remote": server.url}
        driver = stack.enter_context(OtherDriver(python, tmp_path_factory.mktemp("driver"), confs))
        ours, its, _ = driver.call("versions")
        assert ours == its
        assert ours.startswith(version)
        yield driver


@pytest.fixture
def is_oldest(spark: OtherDriver) -> bool:
    return bool(spark.call("versions")[0].startswith(OLDEST))


@pytest.fixture(scope="module")
def long_tube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedTubeMQ]:
    with EmbeddedTubeMQ(tmp_path_factory.mktemp("tube"), lease_ms=LEASE_MS) as running:
        yield running


@pytest.fixture
def topic(long_tube: EmbeddedTubeMQ, request: pytest.FixtureRequest) -> Feed:
    name = re.sub(r"\W", "_", request.node.name.removeprefix("test_"))
    return Feed.create(long_tube, name, stores=2, partitions=2)


def test_batch_reads_and_views(spark: OtherDriver, topic: Feed) -> None:
    topic.send(100, tags=["web", "app"])
    assert spark.call("read", options=topic.options()) == texts(topic.sent)
    web = topic.options(filters=json.dumps({topic.topic: ["web"]}))
    assert spark.call("read", options=web) == texts(topic.sent[::2])
    spark.call("make_view", name="clicks", options=topic.options(columns="*, attributes"))
    [row] = spark.call("sql", text="SELECT count(*), count(DISTINCT value), count(attributes['k']) FROM clicks")
    assert row == [100, 100, 100]
    query = "SELECT DISTINCT messageType, date_format(messageTime, 'yyyyMMddHHmm') FROM clicks ORDER BY 1"
    assert spark.call("sql", text=query) == [["app", "202401020304"], ["web", "202401020304"]]


def test_writes_and_typed_rows(
    spark: OtherDriver, topic: Feed, long_tube: EmbeddedTubeMQ, tmp_path: Path, is_oldest: bool
) -> None:
    spark.call("write", bodies=["5", "z"], options=sink(topic))
    wrong = "the value of id is not of type int, at byte 0"
    assert spark.call("typed", options=topic.options(), schema="id INT") == [[5, "5", None], [None, "z", wrong]]
    copy = Feed.create(long_tube, f"{topic.topic}_copy", stores=1, partitions=1)
    more = {"options": topic.options(startingOffsets="earliest"), "checkpoint": str(tmp_path)}
    if is_oldest:
        with pytest.raises(CallFailed, match=r"writeStream to tubeclient needs Spark 4\.1; this is 4\.0\."):
            spark.call("copy", target=sink(copy), **more)
    else:
        spark.call("copy", target=sink(copy), **more)
        assert spark.call("read", options=copy.options()) == ["5", "z"]


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


def test_available_now(spark: OtherDriver, topic: Feed, tmp_path: Path, is_oldest: bool) -> None:
    """One batch of all there is. Where the batch before did not complete, it is read again, on 4.0 that one alone."""
    more: dict[str, Any] = {"options": topic.options(startingOffsets="earliest"), **places(tmp_path)}
    topic.send(100)
    assert spark.run_available("q", **more) == [(0, 100)]
    topic.send(40)
    topic.wait_until_free()
    for written in ("checkpoint/commits", "rows"):  # as if it had died in its first batch
        shutil.rmtree(tmp_path / written)
    rest = [(1, 40)]
    assert spark.run_available("q", **more) == ([(0, 100)] if is_oldest else [(0, 100), *rest])
    topic.wait_until_free()
    if is_oldest:
        assert spark.run_available("q", **more) == rest
        topic.wait_until_free()
    assert spark.call("rows", rows=str(tmp_path / "rows")) == texts(topic.sent)


def test_limits_of_a_batch(spark: OtherDriver, topic: Feed, tmp_path: Path, is_oldest: bool) -> None:
    topic.send(200)
    options = topic.options(startingOffsets="earliest", maxOffsetsPerTrigger=80)
    if is_oldest:
        with pytest.raises(CallFailed, match=r"maxOffsetsPerTrigger needs Spark 4\.2 or newer"):
            spark.run_available("q", options=options, **places(tmp_path))
    else:
        assert spark.run_available("q", options=options, **places(tmp_path)) == [(0, 80), (1, 80), (2, 40)]
        topic.wait_until_free()
        assert spark.call("rows", rows=str(tmp_path / "rows")) == texts(topic.sent)
