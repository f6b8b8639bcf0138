"""Lag as the driver hears of it, by a real listener of real queries."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_source.progress.lag_listener import LagListener, QueryLag
from tests.spark_source.fakes import as_json
from tests.spark_source.feed import Feed
from tests.spark_source.queries import Batches, run_available, running, stream
from tests.waiting import wait_for
from tubeclient.keys import PartitionKey, StoreKey

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


@pytest.mark.spark
def test_the_last_lag_is_kept_while_the_query_runs(delta_spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    feed.send(20)
    listener = LagListener()
    delta_spark.streams.addListener(listener)
    try:
        with running(stream(delta_spark, feed.options(startingOffsets="earliest")), tmp_path, Batches()) as query:
            wait_for(lambda: (query.id, 0) in listener.last, "the first progress")
            assert listener.last[query.id, 0].rows_behind == 0
        wait_for(lambda: (query.id, 0) not in listener.last, "the end of the query")
    finally:
        delta_spark.streams.removeListener(listener)


def test_other_sources_are_passed_over() -> None:
    heard: list[QueryLag] = []
    LagListener(heard.append).onQueryProgress(progress(KAFKAS, RATE, OURS, UNKNOWN))
    assert [(one.query_id, one.batch_id, one.source, one.rows_behind) for one in heard] == [("q", 7, 2, 10)]


def test_a_callback_that_fails_is_logged_and_later_ones_come(caplog: pytest.LogCaptureFixture) -> None:
    listener = LagListener(lambda _: 1 / 0)  # type: ignore[arg-type]
    listener.onQueryProgress(progress(OURS, OURS))
    assert len(caplog.records) == 2
    assert set(listener.last) == {("q", 0), ("q", 1)}


def test_batches_are_not_told_at_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "spark_source.progress.lag_listener")
    LagListener().onQueryProgress(progress(OURS))
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [
        ("DEBUG", "query q, batch 7: 10 messages behind")
    ]


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
