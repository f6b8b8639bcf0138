"""`payload=inlong` of writes on a real Spark and an embedded TubeMQ: what is written is read back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark_source.feed import Feed
from tests.spark_source.queries import batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

COLUMNS = ("value", "inlongGroupId", "inlongStreamId", "dataTime", "recordAttributes")
RECORDS = (
    "cast(id AS string) AS value",
    "'web.logs' AS inlongGroupId",
    "if(id % 3 = 0, 'clicks', 'views') AS inlongStreamId",
    "timestamp_millis(1700000000000 + (id % 2) * id) AS dataTime",
    "if(id % 2 = 0, null, map('NodeIP', '10.0.0.1')) AS recordAttributes",
)


def sink(feed: Feed, **more: object) -> dict[str, str]:
    texts = {name: str(value) for name, value in more.items()}
    return {"masterServers": feed.tube.master_address, "topic": feed.topic, "payload": "inlong", **texts}


def write(frame: DataFrame, options: dict[str, str]) -> None:
    frame.write.format("tubeclient").options(**options).mode("append").save()


def read(spark: SparkSession, feed: Feed, payload: str = "inlong", **more: object) -> DataFrame:
    return batch(spark, feed.options("", payload=payload, columns="*, attributes, recordAttributes", **more))


def test_records_are_written_and_read_back(delta_spark: SparkSession, feed: Feed, plain_feed: Feed) -> None:
    frame = delta_spark.range(0, 1_000, 1, 2).selectExpr(*RECORDS)
    write(frame, sink(feed))
    kept = ("value", "inlongGroupId", "inlongStreamId", "dataTime")
    wanted = sorted(frame.selectExpr("cast(value AS binary) AS value", *kept[1:]).collect())
    for payload in ("inlong", "auto"):
        assert sorted(read(delta_spark, feed, payload=payload).select(*kept).collect()) == wanted
    assert read(delta_spark, feed, streams="clicks").count() == 334
    nodes = read(delta_spark, feed).where("recordAttributes['NodeIP'] = '10.0.0.1'")
    assert nodes.count() == 500
    assert batch(delta_spark, feed.options()).count() <= 6  # in packs
    # What is read can be written as it is, with its attributes.
    write(read(delta_spark, feed).select(*COLUMNS), sink(plain_feed))
    again = read(delta_spark, plain_feed).selectExpr(*COLUMNS[:4], "map_entries(recordAttributes) AS m").collect()
    assert sorted(again) == sorted(
        read(delta_spark, feed).selectExpr(*COLUMNS[:4], "map_entries(recordAttributes) AS m").collect()
    )
