"""Changes of databases on Spark; what they are is for tests/tubeclient/records."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_source.typed.columns import ARRIVAL
from spark_source.typed.record_format import RecordFormat, target_rows
from spark_source.typed.typed import typed
from tests.spark_source.typed.rows import source_rows
from tubeclient.records import RecordSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.merge]

TEXTS = {"id": "1", "name": "x"}


def message(kind: str, *data: Any) -> bytes:
    return json.dumps({"data": list(data), "type": kind, "es": 5, "ts": 6, "id": 7, "isDdl": False}).encode()


def test_a_record_has_a_row_for_each_change(delta_spark: SparkSession) -> None:
    schema = StructType.fromDDL("id BIGINT NOT NULL, name STRING")
    assert isinstance(schema, StructType)
    event = {"op": "u", "before": None, "after": {"id": 9}, "source": {"ts_ms": 5, "lsn": 7}}
    for kind, body, wanted in (
        ("canal-json", message("INSERT", TEXTS, {**TEXTS, "id": "2"}), [("insert", 1, "x", 0), ("insert", 2, "x", 1)]),
        ("debezium-json", json.dumps(event).encode(), [("update", 9, None, 0)]),
    ):
        came = F.struct(F.lit(3).cast("long").alias("round"), F.lit(4).cast("long").alias("place"))
        rows = source_rows(delta_spark, [body, b"x"]).withColumn(ARRIVAL, came)
        parsed = RecordFormat.of(schema, RecordSpec(kind=kind, schema=pa.schema([]))).parse(rows)
        found = target_rows(parsed).select("*", "change.operation", "change.sequence.*").orderBy("row").collect()
        assert [(row.operation, row.id, row.name, row.row) for row in found] == wanted
        assert {(row.round, row.place, row.tubemq.messageId) for row in found} == {(3, 4, 100)}
        assert parsed.where("badReason IS NOT NULL").count() == 1


def test_row_for_each_change_and_bad_record(delta_spark: SparkSession) -> None:
    """`typed` returns a row for each change and for each bad record."""
    bodies = [message("INSERT", TEXTS, TEXTS), b"x"]
    frame = delta_spark.createDataFrame([(n, body) for n, body in enumerate(bodies)], "n INT, value BINARY")
    rows = typed(frame, "canal-json", "id BIGINT, name STRING")
    assert rows.columns == ["id", "name", "change", "tubemq", "badReason"]
    found = rows.select("id", "change.operation", "tubemq.n", "badReason").orderBy("n").collect()
    assert [tuple(row) for row in found] == [(1, "insert", 0, None)] * 2 + [
        (None, None, 1, "the text is not JSON, at byte 0")
    ]
