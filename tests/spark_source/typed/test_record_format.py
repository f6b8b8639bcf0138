"""Bytes become typed rows on Spark, or have a reason; what each format reads is for tests/tubeclient/records."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql.types import IntegerType, StructType

from spark_source.typed.decoding import Decoding
from spark_source.typed.record_format import RecordFormat, or_fail, target_rows
from tests.spark_source.typed.rows import source_rows
from tubeclient.errors import ConfigurationError
from tubeclient.records import RecordSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.merge


def form(kind: Any, ddl: str, **more: Any) -> RecordFormat:
    schema = StructType.fromDDL(ddl)
    assert isinstance(schema, StructType)
    return RecordFormat.of(schema, RecordSpec(kind=kind, schema=pa.schema([]), **more))


@pytest.mark.spark
def test_each_type_is_on_spark_what_the_record_says(delta_spark: SparkSession, tmp_path: Path) -> None:
    plain = {
        "a BOOLEAN": (True, True),
        "b TINYINT": (-128, -128),
        "c SMALLINT": (-32_768, -32_768),
        "d INT": (1 << 30, 1 << 30),
        "e BIGINT": (1 << 62, 1 << 62),
        "f FLOAT": (1.5, 1.5),
        "g DOUBLE": (1e300, 1e300),
        "h DECIMAL(38,10)": ("1234567890123456789012345678.0123456789",) * 2,
        "i STRING": ("\u4e2d\0", "\u4e2d\0"),
        "j DATE": ("0001-01-01", date(1, 1, 1)),
        "k TIMESTAMP": ("2024-01-02T03:04:05.678901+08:00", datetime(2024, 1, 1, 19, 4, 5, 678_901, UTC)),
        "l TIMESTAMP_NTZ": ("2024-01-02 03:04:05", datetime(2024, 1, 2, 3, 4, 5)),
    }
    nested = {
        "m BINARY": ("AAE=", b"\0\1"),
        "n ARRAY<DECIMAL(4,2)>": ([1.5, None], [Decimal("1.50"), None]),
        "o MAP<STRING, DATE>": ({"x": "2024-01-02"}, {"x": date(2024, 1, 2)}),
        "p STRUCT<q: STRUCT<`r.s`: TIMESTAMP>>": ({"q": {"r.s": 0}}, {"q": {"r.s": datetime(1970, 1, 1, tzinfo=UTC)}}),
    }
    columns = plain | nested
    wanted: dict[str, Any] = {name.split()[0]: value for name, (_, value) in columns.items()}
    wanted["h"] = Decimal(wanted["h"])
    rows = source_rows(delta_spark, [json.dumps({name.split()[0]: one for name, (one, _) in columns.items()}).encode()])
    target_rows(form("json", ", ".join(columns)).parse(rows)).write.format("delta").save(str(tmp_path / "json"))
    [found] = DeltaTable(tmp_path / "json").to_pyarrow_table().to_pylist()
    assert {**found, "o": dict(found["o"])} == {**wanted, "tubemq": found["tubemq"]}
    texts = "|".join(str(one).lower() if one is True else str(one) for one, _ in plain.values())
    rows = source_rows(delta_spark, [texts.encode()])
    target_rows(form("csv", ", ".join(plain), separator="|").parse(rows)).write.format("delta").save(
        str(tmp_path / "csv")
    )
    [found] = DeltaTable(tmp_path / "csv").to_pyarrow_table().to_pylist()
    assert found == {**{name.split()[0]: wanted[name.split()[0]] for name in plain}, "tubemq": found["tubemq"]}


@pytest.mark.spark
def test_what_the_target_gets(delta_spark: SparkSession) -> None:
    rows = source_rows(delta_spark, [b'{"id":1}', b'{"id":'])
    both = form("json", "id BIGINT").parse(rows)
    own = [name for name in rows.columns if name != "badReason"]
    assert both.columns == [*own, "record", "badReason", "unread"]
    [row] = target_rows(both).collect()
    assert row.asDict(recursive=True) == {
        "id": 1,
        "tubemq": {"topic": "t", "partitionKey": "1:t:0", "messageId": 100, "recordIndex": 0},
    }
    with pytest.raises(
        Exception, match="bad record in topic t, partition 1:t:0, message id 101, record 1: the text is not JSON"
    ):
        or_fail(both).collect()


@pytest.mark.spark
def test_a_bad_message_of_the_source_stays_bad(delta_spark: SparkSession) -> None:
    rows = source_rows(delta_spark, [b'{"id":1}', b'{"id":2}', None], bad={1: "the pack is broken", 2: "torn"})
    # To Debezium a message without a value is a tombstone.
    for any_form in (form("json", "id BIGINT"), RecordFormat()):
        both = any_form.parse(rows).orderBy("messageId")
        assert [(row.badReason, row.unread) for row in both.collect()] == [
            (None, False),
            ("the pack is broken", True),
            ("torn", True),
        ]
        assert target_rows(both).count() == 1
    found = form("debezium-json", "id BIGINT").parse(rows).orderBy("messageId").collect()
    assert [row.badReason for row in found][1:] == ["the pack is broken", "torn"]


@pytest.mark.spark
def test_a_record_is_decoded_where_it_is_read(delta_spark: SparkSession) -> None:
    """Rows that tasks decoded are not decoded again."""
    json_form = form("json", "id BIGINT")
    rows = source_rows(delta_spark, [b'{"id":1}', b"x"])
    decoding = json_form.decoding(all_values=False)
    decoded = rows.mapInArrow(decoding, decoding.schema(rows.schema))
    # Where it is not needed, nothing carries the value.
    assert [row.value for row in decoded.orderBy("messageId").collect()] == [None, b"x"]
    frames = (decoded, json_form.parse(decoded))
    plans = [frame._jdf.queryExecution().toString().count("MapInArrow") for frame in frames]
    assert plans[0] == plans[1] > 0
    assert [row.id for row in target_rows(json_form.parse(decoded)).collect()] == [1]


def test_wide_batches_are_cut() -> None:
    """A batch of small records with many columns is decoded in pieces."""
    wide = pa.struct([(f"c{n}", pa.int64()) for n in range(600)])
    for kind, record, fewest, most in (
        (wide, b"{}", 7, 10),
        (pa.list_(wide), b"[" + b"{}," * 150 + b"{}]", 2, 3),
        (pa.list_(pa.int64()), b"[1,2]", 1, 1),
        (pa.string(), b'"x"', 1, 1),
    ):
        spec = RecordSpec(kind="json", schema=pa.schema([("one", kind)]))
        decoding = Decoding(spec, StructType(), all_values=False)
        batch = pa.RecordBatch.from_pydict({"value": [b'{"one":' + record + b"}"] * 20_000 + [None]})
        if kind == pa.list_(wide):
            batch = batch.slice(0, 120)
        sizes = [one.num_rows for one in decoding(iter([batch]))]
        assert sum(sizes) == batch.num_rows
        assert fewest <= len(sizes) <= most


@pytest.mark.spark
def test_times_are_in_the_jobs_zone(delta_spark: SparkSession) -> None:
    """Not in Spark's, which stays as it is."""
    rows = source_rows(delta_spark, [b'{"at":"2026-11-23 10:00:00"}'])
    for zone, utc_hour in (("UTC", 10), ("Asia/Shanghai", 2)):
        both = form("json", "at TIMESTAMP", time_zone=zone).parse(rows)
        [row] = both.selectExpr("cast(record.at AS bigint) AS at_s").collect()
        assert row.at_s == 1_795_392_000 + utc_hour * 3_600
    assert delta_spark.conf.get("spark.sql.session.timeZone") == "UTC"


@pytest.mark.parametrize("name", ["tubemq", "TubeMQ", "ID"])
def test_names_that_the_target_cannot_have(name: str) -> None:
    schema = StructType().add("id", IntegerType()).add(name, IntegerType())
    with pytest.raises(ConfigurationError, match=r"a column tubemq|id more than once"):
        RecordFormat.of(schema, RecordSpec(kind="json", schema=pa.schema([])))
