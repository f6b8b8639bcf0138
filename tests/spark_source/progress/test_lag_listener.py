"""Lag as the driver hears of it, by a real listener of real queries."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_source.progress.lag_listener import LagListener, QueryLag
from tests.spark_source.feed import Feed
from tests.spark_source.queries import Batches, run_available, running, stream
from tests.waiting import wait_for
from tubeclient.assignment import Assignment, Hints
from tubeclient.errors import ConfigurationError
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
    listener = LagListener(heard.append, source_count=2)
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
    assert first.at_most_by_node == (120, 120)
    assert first.metrics()["avgOffsetsBehindLatest"] == "60.0"


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


def test_nodes_have_what_the_querys_hints_give_them() -> None:
    heard: list[QueryLag] = []
    hints = Hints(plan={PartitionKey(1, "t", 0): 1, PartitionKey(1, "t", 1): 1})
    listener = LagListener(heard.append, source_count=2, assignment_strategy="config", assignment_hints=hints)
    listener.onQueryProgress(progress(OURS))
    assert [one.at_most_by_node for one in heard] == [(0, 10)]


def by_lag(keys: Sequence[PartitionKey], source_count: int, hints: Hints) -> Assignment:
    """All to node 0, unless it had one of them or there are rows to read."""
    assert (hints.lag, hints.previous) == ({}, {})
    return [list(keys), *([] for _ in range(source_count - 1))]


def test_a_strategy_of_ones_own_has_hints_without_history() -> None:
    heard: list[QueryLag] = []
    listener = LagListener(heard.append, source_count=2, assignment_strategy=f"{__name__}:by_lag")
    listener.onQueryProgress(progress(OURS))
    assert [one.at_most_by_node for one in heard] == [(10, 0)]


@pytest.mark.parametrize(
    "wrong", [{"source_count": 0}, {"assignment_strategy": "roundrobin"}, {"assignment_strategy": "machine_room"}]
)
def test_wrong_settings_are_refused_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        LagListener(**wrong)
