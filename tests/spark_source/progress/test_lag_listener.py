"""Lag of queries: what Spark's events become. The events are as Spark 4.2 writes them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from spark_source.progress.lag_listener import LagListener, QueryLag
from tests.spark_source.fakes import as_json
from tests.spark_source.feed import Feed
from tests.spark_source.queries import Batches, run_available, stream
from tests.waiting import wait_for
from tubeclient.keys import StoreKey

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENDS: dict[str, Any] = {
    "endOffset": {"1:t:0": {"0-1": 280}, "version": 1},
    "latestOffset": {"1:t:0": {"0-1": 560}, "version": 1},
    "numInputRows": 20,
}
KAFKAS: dict[str, Any] = {"endOffset": {"t": {"0": 10}}, "latestOffset": {"t": {"0": 20}}, "numInputRows": 7}


@pytest.mark.spark
def test_a_stream_is_behind_by_what_its_limit_left(delta_spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    feed.send(200)
    told: list[QueryLag] = []
    listener = LagListener(told.append)
    delta_spark.streams.addListener(listener)
    try:
        frame = stream(delta_spark, feed.options(startingOffsets="earliest", maxOffsetsPerTrigger=80))
        run_available(frame, tmp_path / "checkpoint", Batches())
        wait_for(lambda: len(told) == 3, "the progress of three batches")
    finally:
        delta_spark.streams.removeListener(listener)
    assert [(one.batch_id, one.source, one.rows_behind) for one in told] == [(0, 0, 120), (1, 0, 40), (2, 0, 0)]
    assert told[0].by_store == {StoreKey(1, feed.topic, 0): 60, StoreKey(1, feed.topic, 1): 60}


def lags(*sources: dict[str, Any]) -> list[QueryLag]:
    told: list[QueryLag] = []
    text = json.dumps({"id": "q", "name": None, "batchId": 7, "sources": sources})
    LagListener(told.append).onQueryProgress(SimpleNamespace(progress=SimpleNamespace(json=text)))
    return told


def test_only_sources_whose_lag_is_known_are_told_of() -> None:
    told = lags(KAFKAS, {"endOffset": 5, "latestOffset": 7}, ENDS, {**ENDS, "latestOffset": None})
    assert [(one.query_id, one.batch_id, one.source, one.rows_behind) for one in told] == [("q", 7, 2, 10)]


def test_failing_callback_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The listener logs each failure of its callback and still calls it again."""
    text = json.dumps({"id": "q", "name": None, "batchId": 7, "sources": [ENDS, ENDS]})
    LagListener(lambda _: 1 / 0).onQueryProgress(SimpleNamespace(progress=SimpleNamespace(json=text)))
    assert len(caplog.records) == 2


def test_lag_of_a_store_counts_once() -> None:
    """A partition without an end has all to read, and one past its topic's end nothing."""
    end = as_json({"1:t:0": 4, "1:t:1": 7, "1:t:10000": 12})
    latest = as_json({"1:t:0": 10, "1:t:1": 10, "1:t:10000": 10, "1:t:20000": 5})
    [lag] = lags({"endOffset": end, "latestOffset": latest})
    assert lag.by_store == {StoreKey(1, "t", 0): 6, StoreKey(1, "t", 1): 0, StoreKey(1, "t", 2): 5}
    assert lag.rows_behind == 11
