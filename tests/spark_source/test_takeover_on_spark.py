"""Taking over a backlog on a real Spark and an embedded TubeMQ: once each, in order, by several tasks, on and off."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark_source.feed import Feed
from tests.spark_source.queries import Read, assert_in_order, bodies_of, reads_of, run_available, stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

TAKEOVER: dict[str, object] = {"backlogTakeover": True, "backlogTakeoverMinRows": 100, "sourceCount": 4}


def rows_of_tasks(reads: list[Read]) -> list[int]:
    return sorted(Counter(read.task for read in reads).values())


def test_switch_in_the_middle_of_a_batch(delta_spark: SparkSession, plain_feed: Feed, tmp_path: Path) -> None:
    """Takeover can change between runs and for a batch that runs again."""
    feed = plain_feed
    kept: list[list[Read]] = []
    failed: list[list[Read]] = []

    def keep(frame: DataFrame, batch_id: int) -> None:
        kept.append(reads_of(frame))

    def fail_after_reading(frame: DataFrame, batch_id: int) -> None:
        failed.append(reads_of(frame))
        raise RuntimeError("the sink is down")

    def run(sink: object, **more: object) -> None:
        feed.wait_until_free()
        frame = stream(delta_spark, feed.options("", startingOffsets="earliest", **{**TAKEOVER, **more}))
        run_available(frame, tmp_path / "checkpoint", sink)  # type: ignore[arg-type]

    for takeover in (True, False):
        feed.send(1000, partitions=[0])
        with pytest.raises(Exception, match="the sink is down"):
            run(fail_after_reading, backlogTakeover=takeover)
        # The same batch again, assigned in the other way.
        run(keep, backlogTakeover=not takeover)
    assert [rows_of_tasks(reads) for reads in failed] == [[250] * 4, [1000]]
    assert [rows_of_tasks(reads) for reads in kept] == [[1000], [250] * 4]
    assert bodies_of([read for reads in kept for read in reads]) == feed.sent
    for reads in (*kept, *failed):
        assert_in_order(reads)
