"""Lag and metrics of queries: what Spark's events become. The events are as Spark 4.2 writes them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry

from spark_source.progress.query_metrics import LagListener, QueryLag, QueryMetrics
from tests.spark_source.fakes import as_json
from tests.spark_source.feed import Feed
from tests.spark_source.queries import Batches, run_available, stream
from tests.waiting import wait_for
from tubeclient.keys import StoreKey

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENDS = {
    "endOffset": {"1:t:0": {"0-1": 280}, "version": 1},
    "latestOffset": {"1:t:0": {"0-1": 560}, "version": 1},
    "numInputRows": 20,
}
KAFKAS = {"endOffset": {"t": {"0": 10}}, "latestOffset": {"t": {"0": 20}}, "numInputRows": 7}


class Heard:
    """A listener in a registry."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.metrics = QueryMetrics(self._registry)

    def progress(self, *sources: dict[str, Any], **more: Any) -> None:
        told = {
            "id": "q-id",
            "name": "clicks",
            "batchId": 3,
            "timestamp": "2026-11-23T10:00:00.000Z",
            "batchDuration": 2_000,
            "durationMs": {"addBatch": 1_500},
            "sources": sources,
            **more,
        }
        self.metrics.onQueryProgress(SimpleNamespace(progress=SimpleNamespace(json=json.dumps(told))))

    def __call__(self, name: str, query: str = "clicks", **labels: str) -> float | None:
        return self._registry.get_sample_value(f"tubeclient_query_{name}", {"query": query, **labels})


@pytest.fixture
def heard() -> Heard:
    return Heard()


TEN = 1_795_428_000.0
"""2026-11-23 10:00 UTC."""


def test_batches_are_summed_up(heard: Heard) -> None:
    heard.progress(ENDS)
    heard.progress({**ENDS, "numInputRows": 5, "latestOffset": ENDS["endOffset"]}, batchDuration=20_000)
    assert (heard("rows_total"), heard("batches_total")) == (25, 2)
    assert heard("rows_behind") == 0
    assert heard("last_batch_timestamp_seconds") == heard("last_trigger_timestamp_seconds") == TEN + 20
    assert heard("batch_duration_seconds_sum") == 22
    assert heard("batch_duration_seconds_bucket", le="2.5") == 1
    assert heard("batch_duration_seconds_bucket", le="20.0") == 2


def test_other_sources_are_not_counted(heard: Heard) -> None:
    heard.progress(KAFKAS)
    assert heard("rows_total") is None
    heard.progress(KAFKAS, ENDS)
    assert (heard("rows_total"), heard("rows_behind")) == (20, 10)


def test_an_unknown_end_of_the_topics_is_no_number(heard: Heard) -> None:
    heard.progress(ENDS)
    heard.progress({**ENDS, "latestOffset": None})
    assert heard("rows_behind") is None
    assert heard("rows_total") == 40


def test_a_look_without_new_rows_is_no_batch(heard: Heard) -> None:
    heard.metrics.onQueryIdle(SimpleNamespace(id="q-id", timestamp="2026-11-23T10:00:00.000Z"))
    assert heard("last_trigger_timestamp_seconds") is None
    heard.progress(ENDS)
    heard.progress(ENDS, durationMs={"latestOffset": 3}, timestamp="2026-11-23T10:01:00.000Z")
    assert heard("last_trigger_timestamp_seconds") == TEN + 60
    heard.metrics.onQueryIdle(SimpleNamespace(id="q-id", timestamp="2026-11-23T10:02:00.000Z"))
    assert heard("last_trigger_timestamp_seconds") == TEN + 120
    assert heard("last_batch_timestamp_seconds") == TEN + 2
    assert heard("batches_total") == 1


def test_an_ended_query_is_not_behind_and_its_sums_stay(heard: Heard) -> None:
    heard.progress(ENDS)
    heard.metrics.onQueryTerminated(SimpleNamespace(id="another", exception="it failed"))
    assert heard("rows_behind") == 10
    heard.metrics.onQueryTerminated(SimpleNamespace(id="q-id", exception=None))
    assert (heard("rows_behind"), heard("last_batch_timestamp_seconds")) == (None, None)
    assert (heard("rows_total"), heard("failures_total")) == (20, 0)
    heard.progress(ENDS)
    heard.metrics.onQueryTerminated(SimpleNamespace(id="q-id", exception="it failed"))
    assert heard("failures_total") == 1


# The lag of each source


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


def test_a_callback_that_fails_is_logged_and_later_ones_come(caplog: pytest.LogCaptureFixture) -> None:
    text = json.dumps({"id": "q", "name": None, "batchId": 7, "sources": [ENDS, ENDS]})
    LagListener(lambda _: 1 / 0).onQueryProgress(SimpleNamespace(progress=SimpleNamespace(json=text)))
    assert len(caplog.records) == 2


def test_a_store_counts_once_by_its_partition_that_is_furthest_behind() -> None:
    """A partition without an end has all to read, and one past its topic's end nothing."""
    end = as_json({"1:t:0": 4, "1:t:1": 7, "1:t:10000": 12})
    latest = as_json({"1:t:0": 10, "1:t:1": 10, "1:t:10000": 10, "1:t:20000": 5})
    [lag] = lags({"endOffset": end, "latestOffset": latest})
    assert lag.by_store == {StoreKey(1, "t", 0): 6, StoreKey(1, "t", 1): 0, StoreKey(1, "t", 2): 5}
    assert lag.rows_behind == 11
