"""What Spark's own UI shows of our work: each job has a description. Its pages and its REST API read the same store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark_source.feed import Feed
from tests.spark_source.queries import Batches, run_available, stream
from tests.waiting import wait_for
from tubeclient_cli.common.live import live_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def descriptions(spark: SparkSession) -> list[str]:
    """Of the jobs that the UI knows."""
    context: Any = spark.sparkContext
    jobs = context._jsc.sc().statusStore().jobsList(None)
    found = (jobs.apply(place).description() for place in range(jobs.size()))
    return [one.get() for one in found if one.isDefined()]


def test_a_querys_jobs_have_its_name_and_their_batch(delta_spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    feed.send(10)
    name = f"ingest {feed.topic}"
    frame = stream(delta_spark, feed.options(startingOffsets="earliest"))
    run_available(frame, tmp_path / "checkpoint", Batches(), name=name)

    def is_shown() -> bool:
        return any(text.splitlines()[::3] == [name, "batch = 0"] for text in descriptions(delta_spark))

    wait_for(is_shown, f"the jobs of {name}")


def test_other_work_says_what_it_is(delta_spark: SparkSession) -> None:
    try:
        with live_tasks(delta_spark, "replay of one range"):
            assert delta_spark.range(3).repartition(2).count() == 3
        wait_for(lambda: "replay of one range" in descriptions(delta_spark), "the job")
    finally:
        delta_spark.sparkContext.setJobDescription(None)  # type: ignore[arg-type]
