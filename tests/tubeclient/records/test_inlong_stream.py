"""Stream definitions of InLong's Manager."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tubeclient.records.inlong_stream import StreamFormat, columns_of, parse_stream


def stream(*fields: tuple[str, str] | dict[str, Any], **more: Any) -> str:
    written = [
        dict(zip(("fieldName", "fieldType"), one, strict=True)) if isinstance(one, tuple) else one for one in fields
    ]
    return json.dumps({"inlongStreamId": "clicks", "dataType": "csv", "fieldList": written, **more})


def nested(name: str, kind: str, form: object) -> dict[str, Any]:
    """A field whose type is in its fieldFormat, as FieldFormatUtils writes it."""
    return {"fieldName": name, "fieldType": kind, "fieldFormat": json.dumps(form)}


def test_csv_stream() -> None:
    """A stream definition gives columns, separator, escape character, and encoding."""
    text = stream(("id", "bigint"), ("na`me", "VARCHAR"), dataSeparator="124", dataEscapeChar="92", dataEncoding="GBK")
    found = parse_stream(text)
    assert found == StreamFormat("csv", "`id` BIGINT, `na``me` STRING", "|", "\\", "GBK", {})
    assert parse_stream(json.dumps({"success": True, "data": json.loads(text)})) == found


def test_csv_of_inlong_has_no_quotes() -> None:
    assert parse_stream(stream(("id", "int"), dataSeparator="|")).options == {"quote": ""}


def test_kv_and_json() -> None:
    text = stream(("id", "int"), dataType="KV", dataSeparator="38", kvSeparator="58")
    assert parse_stream(text) == StreamFormat("kv", "`id` INT", "&", options={"kvSeparator": ":"})
    assert parse_stream(text, "json") == StreamFormat("json", "`id` INT")
    assert parse_stream(stream(("id", "int"), dataType="CANAL")) == StreamFormat("canal-json", "`id` INT")


def test_a_raw_stream_has_no_columns() -> None:
    assert parse_stream(stream(dataType="RAW")) == StreamFormat("raw", "")


def test_nested_types_with_the_formats_of_their_times() -> None:
    times = {"elementType": "TIMESTAMP", "elementFormat": "yyyyMMdd"}
    pair = {"keyType": "STRING", "keyFormat": None, "valueType": "ARRAY", "valueFormat": json.dumps(times)}
    one = {"fieldName": "a`b", "fieldType": "DECIMAL", "fieldFormat": '{"precision": 5, "scale": 1}'}
    text = stream(nested("m", "MAP", pair), nested("s", "STRUCT", {"elements": [one]}), dataType="json")
    assert columns_of(text) == {"m": "MAP<STRING, ARRAY<TIMESTAMP>>", "s": "STRUCT<`a``b`: DECIMAL(5,1)>"}
    assert parse_stream(text).options == {"timestampFormat": "yyyyMMdd"}


MANAGERS_TYPES = """
    INT INTEGER TINYINT SMALLINT BIGINT SHORT LONG DOUBLE FLOAT DECIMAL STRING TEXT FIXED BYTE BINARY CHAR VARCHAR
    VARBINARY BOOLEAN DATE TIME INT8 INT16 INT32 INT64 FLOAT4 FLOAT8 FLOAT32 FLOAT64 DATETIME TIMESTAMP TIMESTAMPTZ
    LOCAL_ZONE_TIMESTAMP ARRAY MAP STRUCT FUNCTION KEYWORD LARGEINT JSON
"""
"""FieldType of manager-common, at a6c7a6a670."""


def test_only_function_type_is_refused() -> None:
    """The parser accepts each of Manager's types except FUNCTION."""
    inside = {
        "DECIMAL": {"precision": 5, "scale": 1},
        "ARRAY": {"elementType": "INT"},
        "MAP": {"keyType": "INT", "valueType": "INT"},
        "STRUCT": {"elements": [{"fieldName": "x", "fieldType": "INT"}]},
    }
    without = []
    for kind in MANAGERS_TYPES.split():
        try:
            parse_stream(stream(nested("x", kind, inside[kind]) if kind in inside else ("x", kind), dataType="json"))
        except ValueError:
            without.append(kind)
    assert without == ["FUNCTION"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        *(("Integer", "INT"), ("INT8", "TINYINT"), ("SHORT", "SMALLINT"), ("LONG", "BIGINT"), ("FLOAT64", "DOUBLE")),
        *(("varchar(20)", "STRING"), ("DECIMAL(10,2)", "DECIMAL(10,2)"), ("LARGEINT", "DECIMAL(38,0)")),
        *(("DATETIME", "TIMESTAMP"), ("date", "DATE"), ("TIME", "STRING"), ("BOOLEAN", "BOOLEAN"), ("float", "FLOAT")),
        *(("KEYWORD", "STRING"), ("VARBINARY(20)", "BINARY"), ("FIXED", "BINARY"), ("JSON", "STRING")),
    ],
)
def test_types(kind: str, expected: str) -> None:
    assert parse_stream(stream(("x", kind))).ddl == f"`x` {expected}"


def test_fields_that_are_not_in_the_body_are_left_out() -> None:
    others = [{"fieldName": "t", "fieldType": "x", name: 1} for name in ("isMetaField", "isPredefinedField")]
    assert parse_stream(stream(("id", "int"), *others)).ddl == "`id` INT"


def test_formats_of_fields() -> None:
    at = {"fieldName": "at", "fieldType": "TIMESTAMP", "fieldFormat": "yyyyMMddHHmmss"}
    on = {"fieldName": "on", "fieldType": "DATE", "fieldFormat": "SQL"}
    price = {"fieldName": "price", "fieldType": "DECIMAL", "fieldFormat": '{"precision": 10, "scale": 2}'}
    found = parse_stream(stream(at, on, price), "json")
    assert found.ddl == "`at` TIMESTAMP, `on` DATE, `price` DECIMAL(10,2)"
    assert found.options == {"timestampFormat": "yyyyMMddHHmmss"}


def test_protobuf_has_the_fields_of_the_stream() -> None:
    at = {"fieldName": "at", "fieldType": "TIMESTAMP", "fieldFormat": "yyyyMMddHHmmss"}
    found = parse_stream(stream(("id", "long"), at, dataType="PB"), "protobuf")
    assert (found.kind, found.ddl, found.options) == ("protobuf", "`id` BIGINT, `at` TIMESTAMP", {})


def test_fields_are_not_left_out_in_silence() -> None:
    with pytest.raises(ValueError, match="set format json, csv or kv"):
        parse_stream(stream(("id", "int")), "raw")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "has no fieldList"),
        ("[" * 100_000, "is not JSON"),
        (stream(("id", "int"), dataSeparator="1" * 30), "dataSeparator 11111111111111111111, which is not a character"),
        (stream(("id", "int"), dataEscapeChar="1114112"), "dataEscapeChar 1114112, which is not a character"),
        (stream(), "has no fields"),
        (stream(("id", "int"), dataType="jce"), "has dataType 'jce'; set format"),
        (stream(("id", "int"), dataType="PB"), "records, which are protobuf; set format protobuf, and .* messageName"),
        (stream(("id", "int"), dataType="AVRO"), "records, which are Avro; give schema, an .avsc file"),
        (stream(("x", "FUNCTION")), "the field x of type FUNCTION"),
        (stream(("x", "MAP")), "the contents of the MAP field x"),
        (stream(nested("x", "ARRAY", {})), "the contents of the ARRAY field x"),
        (stream(nested("x", "STRUCT", {"elements": 1})), "the contents of the STRUCT field x"),
        (stream(nested("x", "ARRAY", {"elementType": "BITMAP"})), "the field x of type BITMAP"),
        (stream(nested("x", "ARRAY", {"elementType": "DATE", "elementFormat": "MILLIS"})), "times as numbers .MILLIS"),
        (stream(("x", "DECIMAL")), "precision of the DECIMAL field x"),
        (stream(nested("x", "DECIMAL", [1])), "precision of the DECIMAL field x"),
        (stream(("x", "int"), ("x", "int")), "has the field x twice"),
        (stream(("x", "int"), dataType="kv", lineSeparator="10"), "has a lineSeparator"),
        (stream({"fieldType": "int"}), "a field without fieldName"),
        (stream({"fieldName": "t", "fieldType": "TIMESTAMP", "fieldFormat": "SECONDS"}), "times as numbers"),
        (
            stream(("a", "TIMESTAMP"), {"fieldName": "b", "fieldType": "TIMESTAMP", "fieldFormat": "yyyy"}),
            "TIMESTAMP in several formats",
        ),
    ],
)
def test_what_cannot_be_taken_over_is_said(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_stream(text)
