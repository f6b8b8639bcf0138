"""delta-spark and delta-rs share one offsets table."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from offsets_store import GroupKey, OffsetsTable, PartitionProgress
from offsets_store.schema import COLUMNS
from tests.offsets_store.conftest import FIRST, KEY, SECOND, Clock, at
from tubeclient.keys import PartitionKey

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_spark_reads_the_rows_and_the_history_and_may_write(
    delta_spark: SparkSession, table: OffsetsTable, uri: str, clock: Clock
) -> None:
    run = table.open_run(KEY, 2)
    run.record(at({FIRST: 28}))
    run.record([PartitionProgress(FIRST, 56, 336, 0), PartitionProgress(SECOND, 0, None, 1)])
    odd = GroupKey("it's a/b=c", ["clicks"])
    table.open_run(odd, 1).record(at({FIRST: 280}))

    frame = delta_spark.read.format("delta").load(uri)
    assert {(f.name, f.dataType.simpleString()) for f in frame.schema} == {(c.name, c.type) for c in COLUMNS}
    rows = frame.orderBy("consumerGroup", "partitionId").collect()
    assert [(r.consumerGroup, r.partitionId, r.nextOffset, r.endOffset, r.lag, r.nodeId) for r in rows] == [
        ("clicks_etl", 0, 56, 336, 10, 0),
        ("clicks_etl", 10_000, 0, None, None, 1),
        ("it's a/b=c", 0, 280, 560, 10, 0),
    ]
    # The session's zone is UTC, and collect() answers in this process's zone.
    assert {r.updatedAt.astimezone(UTC) for r in rows} == {datetime.fromtimestamp(clock.now / 1000, UTC)}
    first = delta_spark.read.format("delta").option("versionAsOf", 1).load(uri)
    assert [r.nextOffset for r in first.collect()] == [28]

    # What a person may do by hand in Spark: move a group. The run goes on from there.
    delta_spark.sql(
        f"UPDATE delta.`{uri}` SET nextOffset = 5600 WHERE consumerGroup = 'clicks_etl' AND partitionId = 0"
    )
    assert table.positions("clicks_etl", ["clicks"]) == {FIRST: 5600, SECOND: 0}
    assert run.record(at({FIRST: 8400, SECOND: 28, PartitionKey(2, "clicks", 0): 28})) is True
    seen = delta_spark.read.format("delta").load(uri).where("consumerGroup = 'clicks_etl'").orderBy("nextOffset")
    assert [r.nextOffset for r in seen.collect()] == [28, 28, 8400]
