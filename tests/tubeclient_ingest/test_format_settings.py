"""Settings of formats: what they lack and what they say twice, before Spark starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_source.session_confs import session_confs
from spark_source.typed.format_settings import FormatSettings
from tests.spark_source.typed.rows import source_rows
from tubeclient.errors import ConfigurationError
from tubeclient_ingest.settings.load_settings import load_settings
from tubeclient_ingest.tables.target_columns import columns_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.merge

NEEDED = {"master_servers": "127.0.0.1:8715", "consumer_group": "g", "topics": ("clicks",), "target": "/t"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"format": "xml"}, "format is 'xml'; use one of raw, json, csv, kv"),
        ({"format": "json"}, "format json needs a schema"),
        ({"schema": "id INT"}, "schema is given, but the format is raw"),
        ({"format_options": {"quote": ""}}, "format-options is given, but the format is raw"),
        ({"format": "csv", "schema": "id INT", "schema_from_inlong": "f"}, "remove one"),
        ({"format": "json", "schema": "id INT", "separator": "|"}, "separator is for csv and kv"),
        ({"format": "kv", "schema": "id INT", "separator": "||"}, "separator is '||'; it must be one character"),
        ({"format": "csv", "schema": "id INT", "separator": ""}, "cannot have the separator ''"),
        ({"format": "csv", "schema": "id INT", "escape": ","}, "separator and escape must be different"),
        ({"format": "kv", "schema": "id INT", "separator": "="}, "kvSeparator must be different"),
        ({"format": "csv", "schema": "id INT", "encoding": "utf-88"}, "encoding is 'utf-88'; use one of UTF-8, .*GBK"),
        ({"format": "csv", "schema": "id INT", "time_zone": "Mars/North"}, "'Mars/North' is not a time zone"),
        ({"format": "csv", "schema": "id INT", "format_options": {"qoute": ""}}, "qoute .* did you mean quote"),
        (
            {"format": "json", "schema": "i INT", "format_options": {"mode": "DROPMALFORMED"}},
            "mode is not a format option",
        ),
        (
            {"format": "csv", "schema": "i INT", "escape": "!", "format_options": {"quote": "'"}},
            "quote is not a format option of csv without quotes",
        ),
        ({"rescue": "fields"}, "rescue is fields, but the format is raw; only json and kv have .*: leave it out"),
        ({"format": "csv", "schema": "id INT", "rescue": "values"}, "rescue is values, but the format is csv"),
        ({"format": "canal-json", "schema": "id INT", "rescue": "fields"}, "but the format is canal-json"),
        ({"format": "json", "schema": "id INT", "rescue": "all"}, "rescue is 'all'; write none, fields or values"),
        (
            {"format": "json", "schema": "/nowhere/clicks.ddl"},
            "/nowhere/clicks.ddl, which cannot be read: No such file",
        ),
        (
            {"schema_from_inlong": "/nowhere/s.json"},
            "^schema-from-inlong names the file /nowhere/s.json, which cannot be",
        ),
    ],
)
def test_a_wrong_setting_is_said(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        FormatSettings(**given)


def test_a_file_has_the_same_settings(tmp_path: Path) -> None:
    file = tmp_path / "ingest.toml"
    file.write_text(
        '[ingest]\nformat = "csv"\nschema = "id INT"\nseparator = "|"\ntime-zone = "Asia/Tokyo"\nevolve = true\n'
        '[format-options]\nquote = ""\n'
    )
    settings = load_settings(file, {**NEEDED, "separator": "\\t", "format_options": {"nullValue": "-"}})
    options = {"quote": "", "nullValue": "-"}
    assert settings.records == FormatSettings(
        format="csv", schema="id INT", separator="\\t", time_zone="Asia/Tokyo", format_options=options
    )
    assert settings.evolve


@pytest.mark.spark
def test_the_schema_is_parsed_once_spark_is_up(delta_spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "clicks.ddl"
    file.write_text("-- clicks\nid BIGINT NOT NULL,\n  name STRING\n")
    form = FormatSettings(
        format="kv",
        schema=str(file),
        separator="\\u0001",
        encoding="latin-1",
        time_zone=" Asia/Tokyo",
        format_options={"kvSeparator": "\\u0002"},
    ).record_format()
    assert form.schema is not None
    assert [(one.name, one.dataType.simpleString(), one.nullable) for one in form.schema] == [
        ("id", "bigint", False),
        ("name", "string", True),
    ]
    assert form.spec is not None
    assert (form.spec.separator, form.spec.kv_separator) == ("\x01", "\x02")
    assert (form.spec.encoding, form.spec.time_zone) == ("latin-1", "Asia/Tokyo")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("ddl", "said"),
    [
        ("id DECIMAL(50)", "the schema cannot be parsed: .*50"),
        ("id INT NUT NULL", "the schema cannot be parsed: .*Syntax error"),
        ("DECIMAL(10, 2)", "has no columns"),
        ("tubemq INT", "the schema has a column tubemq"),
        ("a INT, A INT", "the schema has a more than once"),
        ("a ARRAY<INT>", "column a is array<int>, a type that csv does not have"),
        ("a VARCHAR(3)", r"column a is varchar\(3\), .*write STRING"),
    ],
)
def test_a_wrong_schema_is_said(delta_spark: SparkSession, ddl: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        FormatSettings(format="csv", schema=ddl).record_format()
    assert "\n" not in str(caught.value)


@pytest.mark.spark
@pytest.mark.parametrize("name", ["_rescued", "_Rescued"])
def test_a_schema_with_the_rescued_column_is_refused(delta_spark: SparkSession, name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"the schema has a column {name}, .* rename it, or leave rescue out"):
        FormatSettings(format="json", schema=f"{name} STRING", rescue="fields").record_format()


@pytest.mark.spark
def test_the_sessions_settings_change_no_type(delta_spark: SparkSession) -> None:
    others = {"spark.sql.timestampType": "TIMESTAMP_NTZ", "spark.sql.legacy.charVarcharAsString": "true"}
    with session_confs(delta_spark, others):
        for kind in ("json", "csv"):
            form = FormatSettings(format=kind, schema="at TIMESTAMP, name STRING").record_format()
            columns = columns_of(form, source_rows(delta_spark, []).schema, delta_spark)
            assert [one.dataType.simpleString() for one in columns][:2] == ["timestamp", "string"]
        with pytest.raises(ConfigurationError, match=r"varchar\(3\)"):
            FormatSettings(format="csv", schema="a VARCHAR(3)").record_format()


@pytest.mark.spark
def test_not_null_within_a_column_is_refused(delta_spark: SparkSession) -> None:
    with pytest.raises(ConfigurationError, match="NOT NULL inside column a"):
        FormatSettings(format="json", schema="a STRUCT<b: INT NOT NULL>").record_format()


@pytest.mark.spark
def test_inlong_definition_and_user_settings(delta_spark: SparkSession, tmp_path: Path) -> None:
    """An InLong definition gives the format's settings, and the user's settings override them."""
    file = tmp_path / "stream.json"
    fields = [{"fieldName": "id", "fieldType": "long"}]
    file.write_text(json.dumps({"dataType": "CSV", "dataSeparator": "124", "dataEncoding": "GBK", "fieldList": fields}))
    form = FormatSettings(schema_from_inlong=str(file)).record_format()
    spec = form.spec
    assert spec is not None
    assert (spec.kind, spec.separator, spec.encoding, spec.options) == ("csv", "|", "GBK", {"quote": ""})
    other = FormatSettings(schema_from_inlong=str(file), separator=";", encoding="UTF-8", escape="!")
    with pytest.raises(ConfigurationError, match="quote is not a format option"):
        FormatSettings(schema_from_inlong=str(file), escape="!", format_options={"quote": "'"})
    spec = other.record_format().spec
    assert spec is not None
    assert (spec.separator, spec.options) == (";", {})
    file.write_text(json.dumps({"dataType": "csv", "fieldList": fields}))
    with pytest.raises(ConfigurationError, match="has no dataSeparator; set separator"):
        FormatSettings(schema_from_inlong=str(file))


@pytest.mark.spark
def test_nested_and_binary_inlong_fields(delta_spark: SparkSession, tmp_path: Path) -> None:
    """Nested and binary fields of an InLong definition work in JSON, and CSV refuses them."""
    times = {"elementType": "TIMESTAMP", "elementFormat": "yyyyMMdd"}
    pair = {"keyType": "STRING", "keyFormat": None, "valueType": "ARRAY", "valueFormat": json.dumps(times)}
    one = {"fieldName": "a b", "fieldType": "DECIMAL", "fieldFormat": '{"precision": 5, "scale": 1}'}
    fields = [
        {"fieldName": "m", "fieldType": "MAP", "fieldFormat": json.dumps(pair)},
        {"fieldName": "s", "fieldType": "STRUCT", "fieldFormat": json.dumps({"elements": [one]})},
        {"fieldName": "b", "fieldType": "VARBINARY"},
    ]
    file = tmp_path / "stream.json"
    file.write_text(json.dumps({"dataType": "JSON", "fieldList": fields}))
    record = b'{"m": {"x": ["20261101"]}, "s": {"a b": 1.5}, "b": "aGk="}'
    rows = delta_spark.createDataFrame([("clicks", bytearray(record))], "topic STRING, value BINARY")
    [row] = FormatSettings(schema_from_inlong=str(file)).record_format().only_good(rows).collect()
    assert [at.strftime("%F") for at in row.m["x"]] == ["2026-11-01"]
    assert (str(row.s["a b"]), bytes(row.b)) == ("1.5", b"hi")
    file.write_text(json.dumps({"dataType": "CSV", "dataSeparator": "44", "fieldList": fields}))
    with pytest.raises(ConfigurationError, match=r"column m is map.*, a type that csv does not have"):
        FormatSettings(schema_from_inlong=str(file)).record_format()
