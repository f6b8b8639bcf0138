"""Avro records become columns by the schema that settings name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_tubeclient import typed
from spark_source.typed.format_settings import FormatSettings
from tests.spark_source.typed.rows import source_rows
from tests.tubeclient.records.avro_records import USER, avsc, record, user
from tubeclient.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.merge

NO_SCHEMA = "format avro needs a schema in an .avsc file: an Avro schema of a record"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"schema": None}, NO_SCHEMA),
        ({"schema": "id INT"}, f"{NO_SCHEMA}; this is not JSON"),
        ({"schema": "/nowhere.avsc"}, "schema names the file /nowhere.avsc, which cannot be read"),
        ({"encoding": "GBK"}, "encoding is for text formats, but the format is avro"),
        ({"separator": "|"}, "separator is for csv and kv, but the format is avro"),
        ({"format_options": {"mode": "FAILFAST"}}, "mode is not a format option of avro; use one of enableStable"),
        ({"key": ("id",)}, "key is given, but nothing says which row of a key is the newest"),
    ],
)
def test_settings_that_do_not_fit(tmp_path: Path, given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        FormatSettings(format="avro", **{"schema": avsc(tmp_path), **given})
    assert "\n" not in str(caught.value)


def test_the_columns_of_a_schema_and_a_key(tmp_path: Path) -> None:
    form = FormatSettings(format="avro", schema=avsc(tmp_path), key=("ID",), order_by="at").record_format()
    assert (
        form.columns.simpleString()
        == "struct<id:bigint,name:string,at:timestamp,kind:string,counts:array<int>,first:struct<made:timestamp>>"
    )
    assert [one.name for one in form.columns if not one.nullable] == ["id"]
    assert (form.keys, form.order_by) == (("id",), "at")
    with pytest.raises(ConfigurationError, match="key is first, of type struct"):
        FormatSettings(format="avro", schema=avsc(tmp_path), key=("first",), order_by="at").record_format()
    lineage = FormatSettings(format="avro", schema=json.dumps({**USER, "fields": [{"name": "Tubemq", "type": "int"}]}))
    with pytest.raises(ConfigurationError, match="the schema has a column tubemq"):
        lineage.record_format()


@pytest.mark.spark
def test_avro(delta_spark: SparkSession, tmp_path: Path) -> None:
    values = [user(7, "x", 5_000, 1, 4, -5), user()[:-1], b""]
    rows = typed(source_rows(delta_spark, values), "avro", avsc(tmp_path))
    found = sorted(rows.selectExpr("id", "name", "unix_micros(at)", "kind", "counts", "badReason").collect(), key=str)
    assert [tuple(row) for row in found] == [
        (7, "x", 5_000_000, "BUY", [4, -5], None),
        (*[None] * 5, "the bytes end within first, at byte 12"),
        (*[None] * 5, "the record is empty"),
    ]
    unions = record(["int", "string"], ["null", {"type": "map", "values": "double"}])
    rows = typed(source_rows(delta_spark, [b"\2\2x\0"]), "avro", avsc(tmp_path, unions))
    [row] = rows.selectExpr("a.*", "b", "badReason").collect()
    assert tuple(row) == (None, "x", None, None)
