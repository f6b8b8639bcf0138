"""The driver learns how many bad messages a query kept, if the query counts them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from embedded_tubemq import EmbeddedTubeMQ, NewMessage
from pyspark_tubeclient import bad_rows
from spark_source.progress.bad_rows import observed_bad_rows
from spark_source.progress.lag_listener import LagListener, QueryLag
from tests.spark_source.feed import Feed
from tests.spark_source.progress.test_lag_listener import OURS, progress
from tests.spark_source.queries import batch, run_available, stream
from tests.waiting import wait_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.mark.parametrize(
    ("observed", "count"),
    [
        ({}, None),
        ({"other": {"rows": 3}}, None),
        ({"empty": None}, None),
        ({"a": {"tubeclientBadRows": 0}}, 0),
        ({"a": {"tubeclientBadRows": 2, "rows": 9}, "b": {"tubeclientBadRows": 3}, "other": {"rows": 1}}, 5),
    ],
)
def test_the_counts_of_all_observations_are_added(observed: dict[str, Any], count: int | None) -> None:
    assert observed_bad_rows({"observedMetrics": observed}) == count
    heard: list[QueryLag] = []
    LagListener(heard.append).onQueryProgress(progress(OURS, observedMetrics=observed))
    assert [one.bad_rows for one in heard] == [count]


def test_a_query_that_observes_nothing_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    assert observed_bad_rows({}) is None
    LagListener(lambda _: None).onQueryProgress(progress(OURS, observedMetrics={"a": {"tubeclientBadRows": 0}}))
    assert not caplog.records


def test_a_batch_with_bad_messages_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    LagListener(lambda _: None).onQueryProgress(progress(OURS, OURS, observedMetrics={"a": {"tubeclientBadRows": 4}}))
    told = [(one.levelno, one.getMessage()) for one in caplog.records]
    assert told == [(logging.WARNING, "query q, batch 7: 4 bad messages came as rows")]


@pytest.fixture
def spoilt(tube: EmbeddedTubeMQ, request: pytest.FixtureRequest) -> Feed:
    """A partition of 60 messages. Of each 20, two are bad: one damaged, one with attributes that cannot be parsed."""
    feed = Feed.create(tube, request.node.name[:60], stores=1, partitions=1)
    for first in range(0, 60, 20):
        feed.send(19)
        tube.load(feed.topic, [NewMessage(feed.partition_ids[0], b"\0\0\0\x63k=v", 1)])
        tube.damage(feed.topic, (first + 3) * 28)
    return feed


@pytest.mark.spark
def test_each_batch_of_a_stream_has_its_number(delta_spark: SparkSession, spoilt: Feed, tmp_path: Path) -> None:
    heard: list[QueryLag] = []
    listener = LagListener(heard.append)
    options = spoilt.options(startingOffsets="earliest", maxOffsetsPerTrigger=20, badMessages="keep")
    frame = stream(delta_spark, options).observe("bad messages", bad_rows()).where("badReason IS NULL")
    good: list[int] = []
    delta_spark.streams.addListener(listener)
    try:
        run_available(frame, tmp_path / "checkpoint", lambda rows, _: good.append(len(rows.collect())))
        wait_for(lambda: len(heard) == 3, "the progress of three batches")
    finally:
        delta_spark.streams.removeListener(listener)
    assert good == [18, 18, 18]
    assert [one.bad_rows for one in heard] == [2, 2, 2]


@pytest.mark.spark
def test_a_batch_read_can_be_observed_too(delta_spark: SparkSession, spoilt: Feed) -> None:
    from pyspark.sql import Observation

    observation = Observation("bad messages")
    frame: DataFrame = batch(delta_spark, spoilt.options(badMessages="keep")).observe(observation, bad_rows())
    assert frame.where("badReason IS NULL").count() == 54
    assert observation.get == {"tubeclientBadRows": 6}
