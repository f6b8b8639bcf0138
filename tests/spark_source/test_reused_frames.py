"""One DataFrame used again: by several actions, twice in one query, and after the topic changed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from spark_source.offsets.offsets import Offsets
from spark_source.session_confs import session_confs
from tests.spark_source.feed import Feed
from tests.spark_source.queries import Batches, batch, run_available, stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def bodies(frame: DataFrame) -> list[bytes]:
    return sorted(bytes(row.value) for row in frame.select("value").collect())


def test_a_loaded_frame_keeps_its_end_and_the_next_load_looks_anew(delta_spark: SparkSession, feed: Feed) -> None:
    """Spark plans a Python source's read once for each `load`, and gives the plan to all that is made of it."""
    first = feed.send(20)
    options = feed.options(endingOffsets="latest")
    given = ", ".join(f"{name} '{value}'" for name, value in options.items())
    delta_spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW reused USING tubeclient OPTIONS ({given})")
    frame = batch(delta_spark, options)
    unused = batch(delta_spark, options)
    assert frame.count() == delta_spark.table("reused").count() == 20
    feed.send(15)
    assert frame.count() == 20
    assert bodies(frame) == bodies(delta_spark.table("reused")) == first
    assert bodies(frame.union(frame)) == sorted(first * 2)
    kept = batch(delta_spark, options).cache()
    try:
        assert bodies(kept) == bodies(unused) == sorted(feed.sent)
    finally:
        kept.unpersist(blocking=True)
    delta_spark.catalog.dropTempView("reused")


@pytest.mark.parametrize(("reuse", "reads"), [("true", 1), ("false", 2)])
def test_a_self_join_reads_as_often_as_spark_wants_and_has_one_offset(
    delta_spark: SparkSession, feed: Feed, tmp_path: Path, reuse: str, reads: int
) -> None:
    """With its exchange reused Spark reads the source once for both sides, otherwise for each."""
    feed.send(40)
    number = F.regexp_extract(F.col("value").cast("string"), r"message-(\d+)", 1).cast("int")
    frame = stream(delta_spark, feed.options(startingOffsets="earliest", maxOffsetsPerTrigger=20)).select(
        number.alias("number"), (number % 5).alias("rest")
    )
    met: list[tuple[int, int]] = []

    def keep(rows: DataFrame, _: int) -> None:
        met.extend((row[1], row[2]) for row in rows.collect())

    with session_confs(delta_spark, {"spark.sql.exchange.reuse": reuse}):
        progress = run_available(frame.join(frame, "rest"), tmp_path / "checkpoint", keep)
    assert sorted(met) == sorted((a, b) for a in range(40) for b in range(40) if a % 5 == b % 5)
    assert sum(one.numInputRows for one in progress) == 40 * reads
    assert [len(one.sources) for one in progress] == [1] * len(progress)
    feed.wait_until_free()


def test_a_batch_that_was_not_finished_is_run_again_though_the_topic_grew(
    delta_spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    """With Trigger.AvailableNow, whose end is looked for anew: the batch's own end lacks the new partitions."""
    feed.send(40)
    frame = stream(delta_spark, feed.options(startingOffsets="earliest"))

    def fail(rows: DataFrame, _: int) -> None:
        raise RuntimeError(f"the sink is down for {rows.count()}")

    sink = Batches()
    for _ in range(2):
        with pytest.raises(Exception, match="the sink is down for 40"):
            run_available(frame, tmp_path / "checkpoint", fail)
        feed.wait_until_free()
        feed.tube.grow_topic(feed.topic, stores=3, partitions=3)
        feed.send(30, partitions=[0, 2, 10_002, 20_000])
    progress = run_available(frame, tmp_path / "checkpoint", sink)
    assert sink.sizes[0] == 40  # as it was planned; what came since follows
    assert sink.all == feed.sent
    assert len(Offsets.parse(progress[-1].sources[0].endOffset)) == 9
