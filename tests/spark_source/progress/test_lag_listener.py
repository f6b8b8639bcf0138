"""Lag as the driver hears of it, by a real listener of real queries."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession

from embedded_tubemq import EmbeddedTubeMQ, NewMessage
from pyspark_tubeclient import bad_rows
from spark_source.progress.lag_listener import LagListener, QueryLag, observed_bad_rows
from tests.spark_source.fakes import as_json
from tests.spark_source.feed import Feed
from tests.spark_source.queries import Batches, run_available, stream
from tests.waiting import wait_for
from tubeclient.keys import PartitionKey, StoreKey

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


OURS = {"endOffset": {"1:t:0": {"0-1": 280}, "version": 1}, "latestOffset": {"1:t:0": {"0-1": 560}, "version": 1}}
KAFKAS = {"endOffset": {"t": {"0": 10}}, "latestOffset": {"t": {"0": 20}}}
RATE = {"endOffset": 5, "latestOffset": 7}
UNKNOWN = {"endOffset": {"1:t:0": {"0-1": 280}, "version": 1}, "latestOffset": None}


def progress(*sources: dict[str, Any], **more: Any) -> SimpleNamespace:
    text = json.dumps({"id": "q", "name": None, "batchId": 7, "sources": sources, **more})
    return SimpleNamespace(progress=SimpleNamespace(json=text))


@pytest.mark.spark
def test_a_stream_is_behind_by_what_its_limit_left(delta_spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    feed.send(200)
    heard: list[QueryLag] = []
    listener = LagListener(heard.append)
    delta_spark.streams.addListener(listener)
    try:
        frame = stream(delta_spark, feed.options(startingOffsets="earliest", maxOffsetsPerTrigger=80))
        run_available(frame, tmp_path / "checkpoint", Batches())
        wait_for(lambda: len(heard) == 3, "the progress of three batches")
    finally:
        delta_spark.streams.removeListener(listener)
    assert [(one.batch_id, one.source, one.rows_behind) for one in heard] == [(0, 0, 120), (1, 0, 40), (2, 0, 0)]
    first = heard[0]
    assert first.by_store == {StoreKey(1, feed.topic, 0): 60, StoreKey(1, feed.topic, 1): 60}


def test_other_sources_are_passed_over() -> None:
    heard: list[QueryLag] = []
    LagListener(heard.append).onQueryProgress(progress(KAFKAS, RATE, OURS, UNKNOWN))
    assert [(one.query_id, one.batch_id, one.source, one.rows_behind) for one in heard] == [("q", 7, 2, 10)]


def test_a_callback_that_fails_is_logged_and_later_ones_come(caplog: pytest.LogCaptureFixture) -> None:
    listener = LagListener(lambda _: 1 / 0)  # type: ignore[arg-type]
    listener.onQueryProgress(progress(OURS, OURS))
    assert len(caplog.records) == 2
    assert set(listener.last) == {("q", 0), ("q", 1)}


def test_a_store_counts_once_by_its_partition_that_is_furthest_behind() -> None:
    """A partition without an end has all to read, and one past its topic's end nothing."""
    heard: list[QueryLag] = []
    end = as_json({"1:t:0": 4, "1:t:1": 7, "1:t:10000": 12})
    latest = as_json({"1:t:0": 10, "1:t:1": 10, "1:t:10000": 10, "1:t:20000": 5})
    LagListener(heard.append).onQueryProgress(progress({"endOffset": end, "latestOffset": latest}))
    [lag] = heard
    assert lag.by_store == {StoreKey(1, "t", 0): 6, StoreKey(1, "t", 1): 0, StoreKey(1, "t", 2): 5}
    assert lag.rows_behind == 11
    by_partition = {"1:t:0": 6, "1:t:1": 3, "1:t:10000": 0, "1:t:20000": 5}
    assert lag.at_most_by_partition == {PartitionKey.parse(name): rows for name, rows in by_partition.items()}


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
