"""Limits on a real Spark and an embedded TubeMQ: the rows of each batch are counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_source.offsets.offsets import Offsets
from spark_source.session_confs import session_confs
from tests.spark_source.feed import Feed
from tests.spark_source.queries import Batches, run_available, running, stream
from tests.waiting import wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ENTRY = 28


# Rows of a batch


def test_partitions_that_stand_apart_make_smaller_batches_until_they_meet(
    delta_spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    feed.send(600)
    names = {partition: f"1:{feed.topic}:{partition}" for partition in feed.partition_ids}
    begin = {0: 100, 1: 0, 10000: 0, 10001: 50}
    starting = json.dumps({names[partition]: rows * ENTRY for partition, rows in begin.items()})
    sink = Batches()
    frame = stream(delta_spark, feed.options(startingOffsets=starting, maxOffsetsPerTrigger=90))
    progress = run_available(frame, tmp_path / "checkpoint", sink)
    # Message n is entry n // 2 of its store, as partitions are sent to in the order 0, 1, 10000, 10001.
    place = {body: (feed.partition_ids[n % 4], n // 4 * 2 + n % 2) for n, body in enumerate(feed.sent)}
    wanted = [body for body, (partition, entry) in place.items() if entry >= begin[partition]]
    assert sink.all == sorted(wanted)
    assert max(sink.sizes) == 90
    ends = [Offsets.parse(one.sources[0].endOffset).runs for one in progress]
    met = [False] + [all(len(runs) == 1 for runs in end.values()) for end in ends[:-1]]
    assert met == sorted(met)  # once together, always together
    assert {size for size, together in zip(sink.sizes[:-1], met, strict=False) if together} == {90}
    assert any(size < 90 for size, together in zip(sink.sizes, met, strict=True) if not together)


# Waiting for rows


def test_a_batch_waits_for_the_fewest_rows(delta_spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    # Idle triggers are reported each 10 s otherwise; the report shows that the source has seen rows and left them.
    report_each = "spark.sql.streaming.noDataProgressEventInterval"
    feed.send(50)
    sink = Batches()
    frame = stream(delta_spark, feed.options(startingOffsets="earliest", minOffsetsPerTrigger=100))
    with session_confs(delta_spark, {report_each: "100"}), running(frame, tmp_path / "checkpoint", sink) as query:

        def left() -> int:
            """Rows that the last idle trigger saw and left."""
            progress = query.lastProgress
            if progress is None or progress.numInputRows:
                return 0
            source = progress.sources[0]
            if source.latestOffset is None:
                return 0
            offsets = [Offsets.parse(text).runs for text in (source.latestOffset, source.endOffset)]
            seen, at = (sum(min(run.offset for run in runs) for runs in one.values()) // ENTRY for one in offsets)
            return seen - at

        wait_for(lambda: sink.sizes == [50], "the first batch, which waits for nothing")
        feed.send(60)
        wait_for(lambda: left() == 60, "the query to see 60 rows and leave them")
        feed.send(60)
        wait_for(lambda: len(sink.sizes) == 2, "the second batch")
    assert sink.sizes == [50, 120]
    assert sink.all == feed.sent
