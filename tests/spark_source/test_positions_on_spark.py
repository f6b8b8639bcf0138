"""Positions as a table, in a session of this process; `test_connect.py` asks for them over Spark Connect."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark_source.feed import Feed
from tests.spark_source.queries import Batches, batch, run_available, stream

pytestmark = [pytest.mark.spark, pytest.mark.merge]

BY_STORE = "SELECT max(messagesBehindAtMost) AS behind FROM {frame} GROUP BY topic, brokerId, storeId"


def behind(frame: DataFrame) -> int:
    spark = frame.sparkSession
    row = spark.sql(f"SELECT sum(behind) FROM ({BY_STORE})", frame=frame).head()
    assert row is not None
    return int(row[0])


def test_positions_with_the_options_of_a_query(delta_spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    """A store counts once, and the rows are as of the first action."""
    feed.send(40)
    options = feed.options(startingOffsets="earliest", offsetsTable=tmp_path / "offsets")
    run_available(stream(delta_spark, options), tmp_path / "checkpoint", Batches())
    feed.send(8, partitions=[0])
    positions = {**options, "readPositions": "true"}
    frame = batch(delta_spark, positions)
    assert behind(frame) == 8
    assert frame.where("groupOffset = 20 * 28 AND topic IS NOT NULL").count() == len(feed.partition_ids)
    feed.send(2, partitions=[10_000])
    assert [behind(frame), behind(batch(delta_spark, positions))] == [8, 10]
    assert behind(batch(delta_spark, feed.options("nobody", readPositions="true"))) == 50


def test_a_stream_of_positions_is_one_clear_error(delta_spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    frame = stream(delta_spark, feed.options(readPositions="true"))
    with pytest.raises(Exception, match="readPositions is for batch reads only; read positions") as caught:
        run_available(frame, tmp_path / "checkpoint", Batches())
    assert "Traceback" not in str(caught.value)
