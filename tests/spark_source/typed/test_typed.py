"""`typed` in users' own queries."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from pyspark_tubeclient import typed
from spark_source.session_confs import session_confs
from tests.spark_source.feed import Feed
from tests.spark_source.other_driver import texts
from tests.spark_source.typed.rows import source_rows
from tubeclient.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.merge]

CLICKS = "id BIGINT NOT NULL, name STRING"


def test_good_and_bad_records_of_a_frame(delta_spark: SparkSession) -> None:
    rows = source_rows(delta_spark, [b'{"id":1,"name":"x"}', b'{"name":"y"}', b"{", None], bad={3: "torn"})
    as_struct = StructType([StructField("id", LongType(), False), StructField("name", StringType())])
    for schema in (CLICKS, as_struct):
        clicks = typed(rows, "json", schema)
        assert clicks.columns == ["id", "name", "tubemq", "badReason"]
        found = clicks.select("id", "name", "badReason", "tubemq.messageId", "tubemq.value").orderBy("messageId")
        assert [tuple(row) for row in found.collect()] == [
            (1, "x", None, 100, b'{"id":1,"name":"x"}'),
            (None, None, "id is NOT NULL but has no value", 101, b'{"name":"y"}'),
            (None, None, "the text is not JSON, at byte 1", 102, b"{"),
            (None, None, "torn", 103, None),
        ]


def test_no_name_is_in_the_way(delta_spark: SparkSession) -> None:
    rows = source_rows(delta_spark, [b'{"a.b":1,"value":2,"record":3,"c`d":4}']).drop("badReason")
    for name in ("record", "unread", "__text", "tubemq", "a.b"):
        rows = rows.withColumn(name, rows.value)
    for frame in (rows, typed(rows, "json", "x INT").select("tubemq.*")):
        [row] = typed(frame, "json", "`a.b` INT, value INT, record INT, `c``d` INT, variant INT").collect()
        assert tuple(row)[:4] == (1, 2, 3, 4)
        assert row.tubemq.asDict().keys() == {*rows.columns}


def test_formats_have_their_options(delta_spark: SparkSession) -> None:
    rows = source_rows(delta_spark, [b"1|x|02/01/2024"])
    more: dict[str, Any] = {"separator": "|", "options": {"dateFormat": "dd/MM/yyyy"}}
    [row] = typed(rows, "csv", f"{CLICKS}, at DATE", **more).collect()
    assert (row.id, row.name, str(row.at), row.badReason) == (1, "x", "2024-01-02", None)


def test_what_the_schema_lacks_is_rescued(delta_spark: SparkSession) -> None:
    rows = source_rows(delta_spark, [b'{"id":1,"name":"x"}', b'{"id":2,"x":0.10,"y":[]}', b'{"x":1}'])
    found = typed(rows, "json", CLICKS, rescue="fields")
    assert found.columns == ["id", "name", "_rescued", "tubemq", "badReason"]
    texts = [row._rescued for row in found.orderBy("tubemq.messageId").collect()]
    assert texts == [None, '{"x":0.10,"y":[]}', None]


def test_times_are_in_the_sessions_zone(delta_spark: SparkSession) -> None:
    rows = source_rows(delta_spark, [b'{"at":"2024-01-02T03:04:05"}'])
    for zone in ("Asia/Tokyo", "GMT+9", "+09:00"):
        with session_confs(delta_spark, {"spark.sql.session.timeZone": zone}):
            [row] = typed(rows, "json", "at TIMESTAMP").selectExpr("unix_seconds(at) AS at").collect()
        assert row.at == datetime(2024, 1, 1, 18, 4, 5, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"format": "xml"}, "format is 'xml'; use one of raw, json"),
        ({"format": "raw"}, "the format is raw; set format to json"),
        ({"schema": "id BIGNUM"}, "the schema cannot be parsed"),
        ({"schema": "badReason STRING"}, "the schema has a column badReason"),
        ({"schema": "tubemq STRING"}, "the schema has a column tubemq"),
        ({"separator": ","}, "separator is for csv and kv"),
        ({"format": "csv", "rescue": "fields"}, "rescue is fields, but the format is csv"),
        ({"options": {"datFormat": "y"}}, "did you mean dateFormat"),
        ({"schema": "v ARRAY<VARIANT>"}, "column v contains a VARIANT"),
    ],
)
def test_wrong_arguments(delta_spark: SparkSession, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        typed(source_rows(delta_spark, []), **{"format": "json", "schema": CLICKS, **arguments})


def test_session_settings_change_no_row(delta_spark: SparkSession) -> None:
    """No setting of the session changes what the records mean."""
    others = {
        "spark.sql.ansi.enabled": "true",
        "spark.sql.caseSensitive": "true",
        "spark.sql.legacy.timeParserPolicy": "LEGACY",
        "spark.sql.legacy.javaCharsets": "false",
        "spark.sql.variant.allowDuplicateKeys": "false",
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    }
    text = "\u4e2d=1&at=2024-01-02 03:04:05&price=1.5"
    rows = source_rows(delta_spark, [text.encode("GBK"), b"x"])
    with session_confs(delta_spark, others):
        schema = "`\u4e2d` INT, at TIMESTAMP, price DECIMAL(4,2)"
        found = typed(rows, "kv", schema, encoding="GBK", separator="&").orderBy("tubemq.messageId").collect()
        assert typed(rows, "kv", schema).schema["at"].dataType.typeName() == "timestamp"
    assert (found[0]["\u4e2d"], str(found[0]["at"]), str(found[0].price)) == (1, "2024-01-02 03:04:05", "1.50")
    assert found[1].badReason == "a part has no =, at byte 0"
    with pytest.raises(ConfigurationError, match="the frame has no column value"):
        typed(rows.drop("value"), "json", CLICKS)


def test_a_variant_has_what_the_text_has(delta_spark: SparkSession) -> None:
    rows = source_rows(delta_spark, [b'{"v":{"a":[1,"x",null],"b":12345678901234567890.125}}', b'{"v":{"z":1,"z":2}}'])
    found = typed(rows, "json", "v VARIANT").selectExpr("to_json(v) AS v", "badReason").collect()
    assert found[0].v == '{"a":[1,"x",null],"b":12345678901234567890.125}'
    assert (found[1].v, found[1].badReason.partition(",")[0]) == (None, "a name within v appears twice")


def test_a_stream_of_typed_rows(delta_spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    feed.send(3)
    rows = delta_spark.readStream.format("tubeclient").options(**feed.options(startingOffsets="earliest")).load()
    place = str(tmp_path / "rows")
    query = (
        typed(rows, "csv", "text STRING")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(place)
    )
    assert query.awaitTermination(60)
    found = delta_spark.read.parquet(place).select("text", "badReason", "tubemq.topic").collect()
    assert sorted(tuple(row) for row in found) == sorted((text, None, feed.topic) for text in texts(feed.sent))
