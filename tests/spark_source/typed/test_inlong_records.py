"""`inlong_records`: packs of any frame become rows of records, alike however they came."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from pyspark_tubeclient import inlong_records, typed
from spark_source.session_confs import session_confs
from tests.tubeclient.inlong.packs import OwnRecord, encode_bin_pack, encode_message_objs
from tubeclient.errors import ConfigurationError
from tubeclient.inlong import RecordGroup, encode_pack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

STREAM = {"groupId": "shop", "streamId": "orders", "dt": "1700000000123"}
AT_MS = 1_700_000_000_123
AT = datetime.fromtimestamp(AT_MS / 1000, UTC).replace(tzinfo=None)
PACK = encode_pack([RecordGroup(STREAM, [b"1|a", b"2|b"])], made_ms=1)
OBJS = encode_message_objs([OwnRecord(b"3|c", {}), OwnRecord(b"4|d", {})], [AT_MS] * 2, "gzip")
OF_OBJS = {"msgEnType": b"1", "version": b"1", "compressType": b"INLONG_GZ"}
OF_STREAM = {"inlongGroupId": b"shop", "inlongStreamId": b"orders"}
TORN = PACK[:20] + PACK[-2:]
CUT = "group 0 of 1 of the pack"


def headers(**pairs: bytes) -> list[tuple[str, bytes]]:
    return list(pairs.items())


def of_shop(index: int, value: bytes) -> tuple[Any, ...]:
    return ("shop", "orders", AT_MS, index, value, None)


@pytest.mark.merge
def test_records_of_any_frame(delta_spark: SparkSession) -> None:
    """Kafka's headers say what is packed how; without them the magic does, and what has neither is a record."""
    sent = [
        ("objs", OBJS, [("trace", b"\xff"), ("version", b"2"), *headers(**OF_OBJS, **OF_STREAM)]),
        ("pack", PACK, None),
        ("numbers", encode_bin_pack([b"5|e"], {}, data_time_s=1_700_000_000, numbers=(7, 8)), headers(**OF_STREAM)),
        ("raw", b"6|f", [("version", b"1")]),
        ("torn", TORN, []),
        ("none", None, headers(**OF_OBJS, **OF_STREAM)),
        ("no objs", b"\x0f", headers(**OF_OBJS, **OF_STREAM)),
    ]
    columns = "key STRING, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
    records = inlong_records(delta_spark.createDataFrame(sent, columns))
    assert records.columns == [
        *("key", "headers"),
        *("inlongGroupId", "inlongStreamId", "dataTime", "recordIndex", "value", "badReason"),
    ]
    found: dict[str, list[Any]] = {}
    for row in records.withColumn("dataTime", F.unix_millis("dataTime")).collect():
        found.setdefault(row.key, []).append(tuple(row)[2:])
        kept = None if row.headers is None else [tuple(pair) for pair in row.headers]
        assert kept == next(own for key, _, own in sent if key == row.key)
    assert found["objs"] == [of_shop(0, b"3|c"), of_shop(1, b"4|d")]
    assert found["pack"] == [of_shop(0, b"1|a"), of_shop(1, b"2|b")]
    assert found["numbers"] == [("shop", "orders", 1_700_000_000_000, 0, b"5|e", None)]
    assert found["raw"] == [(None, None, None, 0, b"6|f", None)]
    [[*nothing, value, reason]] = found["torn"]
    assert (nothing, value) == ([None] * 4, TORN)
    assert reason.startswith(CUT)
    assert found["none"] == [(None, None, None, None, None, "the message has no value")]
    [[*nothing, value, reason]] = found["no objs"]
    assert (nothing, value) == ([None] * 4, b"\x0f")
    assert reason.startswith("the gzip block")
    orders = typed(records, "csv", "id INT, name STRING", separator="|").selectExpr("id", "badReason", "tubemq.key")
    assert sorted((row.id, row.key) for row in orders.where("badReason IS NULL").collect()) == [
        *((1, "pack"), (2, "pack"), (3, "objs"), (4, "objs"), (5, "numbers"), (6, "raw")),
    ]


def test_other_columns_stay_as_they_are(delta_spark: SparkSession) -> None:
    """Of any type, whatever the session sends to Python; attributes may be a map, as TubeMQ's and Pulsar's."""
    columns = (
        "value BINARY, attributes MAP<STRING, STRING>, a ARRAY<STRUCT<x: INT, y: ARRAY<STRING>>>, "
        "m MAP<STRING, ARRAY<BIGINT>>, d DECIMAL(38, 9), day DATE, at TIMESTAMP, ntz TIMESTAMP_NTZ, ok BOOLEAN, n VOID"
    )
    attributes = {name: text.decode() for name, text in {**OF_OBJS, **OF_STREAM}.items()}
    other = ([(1, ["x", None])], {"k": [1, None]}, Decimal("1.000000009"), date(2024, 1, 2), AT, AT, True, None)
    rows = [(OBJS, attributes, *other), (PACK, None, *[None] * 8), (None, {}, *other)]
    for confs in (
        {},
        {"spark.sql.execution.arrow.useLargeVarTypes": "true", "spark.sql.session.timeZone": "Asia/Tokyo"},
    ):
        with session_confs(delta_spark, confs):
            frame = delta_spark.createDataFrame(rows, columns)
            records = inlong_records(frame)
            assert records.schema.fields[:9] == [field for field in frame.schema if field.name != "value"]
            wanted = {str(row.asDict(recursive=True)) for row in frame.drop("value").collect()}
            new = ("inlongGroupId", "inlongStreamId", "dataTime", "recordIndex", "value", "badReason")
            assert {str(row.asDict(recursive=True)) for row in records.drop(*new).collect()} == wanted
            assert records.where("badReason IS NULL").count() == 4
    alone = inlong_records(delta_spark.createDataFrame([(PACK,)], "value BINARY"))
    assert [row.value for row in alone.collect()] == [b"1|a", b"2|b"]


def test_times_as_text_have_a_zone(delta_spark: SparkSession) -> None:
    pack = encode_pack([RecordGroup({"groupId": "g", "streamId": "s", "t": "2024010203"}, [b"x"])], made_ms=1)
    frame = delta_spark.createDataFrame([(pack,)], "value BINARY")
    for zone, hour in (("UTC", 3), ("Asia/Shanghai", 19)):
        [row] = inlong_records(frame, time_zone=zone).selectExpr("hour(dataTime) AS hour").collect()
        assert row.hour == hour


@pytest.mark.parametrize(
    ("columns", "zone", "said"),
    [
        ("payload BINARY", "UTC", "the frame has no column value"),
        ("value STRING", "UTC", "the frame's column value is string; it must be binary"),
        ("value BINARY, headers STRING", "UTC", "column headers is string; it must be array<struct<key"),
        ("value BINARY, attributes STRING", "UTC", "column attributes is string; it must be map<string,string>"),
        ("value BINARY, datatime DATE, badReason STRING", "UTC", "the frame already has datatime, badReason"),
        ("value BINARY, VALUE STRING", "UTC", "the frame already has VALUE"),
        ("value BINARY", "Mars", "Mars"),
    ],
)
def test_what_does_not_fit(delta_spark: SparkSession, columns: str, zone: str, said: str) -> None:
    with (
        session_confs(delta_spark, {"spark.sql.caseSensitive": "true"}),
        pytest.raises(ConfigurationError, match=said),
    ):
        inlong_records(delta_spark.createDataFrame([], columns), time_zone=zone)
