"""Limits on a real Spark and an embedded TubeMQ: the rows of each batch are counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_source.offsets.offsets import Offsets
from tests.spark_source.feed import Feed
from tests.spark_source.queries import Batches, run_available, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ENTRY = 28


# Rows of a batch


@pytest.mark.merge
def test_partitions_apart_make_smaller_batches(delta_spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    """Partitions at different positions make smaller batches until they meet."""
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
